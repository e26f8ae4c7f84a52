"""Static addresses: given as asked, to one VM at a time, and free again when the VM is gone."""

from __future__ import annotations

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError


@proves("create_vm", "delete_vm")
def test_a_static_address_is_free_again_after_delete_vm(lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    for _ in range(3):
        lab.cpi.delete_vm(lab.vm(networks=networks))


@proves("create_vm")
def test_a_static_address_that_is_taken_makes_no_vm(lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    lab.vm(networks=networks)
    expect_error(CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(networks=networks)))


@proves("create_vm")
def test_a_failed_vm_gives_its_address_back(lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    huge = lab.bed.huge_vm_properties(lab.az)
    expect_error(CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(networks=networks, cloud_properties=huge)))
    lab.vm(networks=networks)


@proves("create_vm")
def test_a_dynamic_network_ignores_the_address_of_a_former_vm(lab: Lab) -> None:
    address = lab.address()
    lab.vm(networks=lab.bed.networks(lab.az, address))
    dynamic = {**lab.bed.networks(lab.az, address)["default"], "type": "dynamic"}
    lab.vm(networks={"default": dynamic})
