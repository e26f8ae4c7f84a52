"""What a create that failed, timed out or came up later leaves is found by its mark; a fixed address is free again."""

from __future__ import annotations

import time

import pytest
from peers.openstack_bed import COMPUTES, OpenstackBed
from peers.openstack_operator import until
from tests.cpi.drivers.openstack.killing import sweep

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, NoPlacement, OutcomeUnknown

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDuRarZnRJUz5VFrCszxlkowqY/VWhemiuRpNjD+8mdO"


def test_a_vm_that_found_no_host_leaves_nothing(bed: OpenstackBed, lab: Lab) -> None:
    """Neither its port nor its volumes nor its keypair; a floating IP of the operator's stays, and is free."""
    lab.image()
    public = {"type": "vip", "ip": bed.floating_ip(), "cloud_properties": {}}
    networks = {**bed.networks("z1", bed.address("z1")), "public": public}
    before = bed.inventory()
    volumes = {"boot_from_volume": True, "root_disk": {"size": 2}, "ephemeral_disk": {"size": 1}}
    huge = {**bed.huge_vm_properties("z1"), **volumes, "public_key": KEY}
    expect_error(NoPlacement, lambda: lab.vm(cloud_properties=huge, networks=networks))
    assert bed.inventory() == before
    (address,) = bed.operator.listed("ip")
    assert address["port_id"] is None
    bed.operator.delete("ip", address["id"])


def test_everything_of_a_vm_goes_with_it(bed: OpenstackBed, lab: Lab) -> None:
    lab.image()
    before = bed.inventory()
    volumes = {"boot_from_volume": True, "root_disk": {"size": 2}, "ephemeral_disk": {"size": 1}}
    vm = lab.vm(cloud_properties={**bed.vm_properties("z1"), **volumes, "public_key": KEY})
    made = {kind for kind, _ in bed.inventory() - before}
    assert made == {"vm", "port", "disk", "keypair"}
    lab.cpi.delete_vm(vm)
    assert bed.inventory() == before


def test_a_vm_that_comes_up_after_the_time_out_is_found_and_goes(bed: OpenstackBed, lab: Lab) -> None:
    """Where it may still come, the outcome is unknown: a certain failure is one that left nothing."""
    image, arguments = lab.image(), lab.vm_arguments()
    before = bed.inventory()
    bed.more["state_timeout"] = 4
    with bed.frozen(*COMPUTES):
        error = expect_error(CpiError, lambda: bed.open().create_vm(**arguments))
        assert isinstance(error, OutcomeUnknown) or bed.inventory() == before, error
    sweep(bed, {image})
    assert bed.inventory() == before


def test_a_port_that_appears_after_the_time_out_is_found(bed: OpenstackBed, lab: Lab) -> None:
    """Neutron stands still during the request: nothing is listed when the client gives up, and the port comes later."""
    image, arguments = lab.image(), lab.vm_arguments()
    cpi = bed.open()
    assert cpi.has_vm("7c4e3e50-7d3f-4f3b-9e7d-0d6f3a3a3a3a") is False  # logged in before anything stands still
    before = bed.inventory()
    bed.front.bend("neutron", "POST", "/v2.0/ports", "stall", seconds=0)
    expect_error(OutcomeUnknown, lambda: cpi.create_vm(**arguments))
    until(lambda: bed.operator.listed("port"))
    found = lab.cpi.find("port", arguments["mark"])
    assert found is not None
    sweep(bed, {image})
    assert bed.inventory() == before


def test_a_boot_that_was_never_taken_can_be_repeated(bed: OpenstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    bed.front.bend("nova", "POST", "/v2.1/servers", "hang", seconds=0.2)
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)
    assert len(bed.operator.listed("vm")) == len(bed.operator.listed("port")) == 1


def test_a_service_that_is_broken_once_does_no_harm(bed: OpenstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    bed.front.bend("nova", "POST", "/v2.1/servers", "refuse", status=500)
    bed.front.bend("neutron", "POST", "/v2.0/ports", "refuse", status=503)
    for _ in range(2):
        expect_error(CpiError, lambda: lab.cpi.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)
    assert len(bed.operator.listed("vm")) == len(bed.operator.listed("port")) == 1


@pytest.mark.short
def test_a_fixed_address_is_free_at_once_after_a_delete(bed: OpenstackBed, lab: Lab) -> None:
    networks = bed.networks("z1", bed.address("z1"))
    for _ in range(3):
        lab.cpi.delete_vm(lab.vm(networks=networks))
        assert bed.operator.listed("port") == []


def test_a_service_that_asks_for_patience_gets_it(bed: OpenstackBed, lab: Lab) -> None:
    vm = lab.vm()
    busy = {"status": 503, "headers": {"Retry-After": "1"}, "times": 2}
    bed.front.bend("nova", "GET", f"/v2.1/servers/{vm}", "refuse", **busy)
    began = time.monotonic()
    assert lab.cpi.has_vm(vm) is True
    assert time.monotonic() - began >= 2


def test_a_service_that_never_answers_is_given_up(bed: OpenstackBed, lab: Lab) -> None:
    vm = lab.vm()
    bed.more |= {"request_timeout": 1, "retries": 1}
    cpi = bed.open()
    assert cpi.has_vm(vm) is True
    bed.front.bend("nova", "GET", f"/v2.1/servers/{vm}", "hang", seconds=30, times=2)
    began = time.monotonic()
    expect_error(CpiError, lambda: cpi.has_vm(vm))
    assert time.monotonic() - began < 10
