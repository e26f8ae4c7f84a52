"""Managed networks: one call per subnet, with the addresses that came of it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from coterie.cpi.conformance.expect import allow_not_found
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import Mark, NetworkCreated, NetworkNotFound


def make(lab: Lab, mark: Mark | None = None) -> NetworkCreated:
    created = lab.cpi.create_network(lab.bed.subnet(), mark=mark or lab.mark())
    lab.undo(lab.cpi.delete_network, created.cid)
    return created


@proves("create_network", "delete_network")
def test_a_network_is_made_with_its_addresses_and_deleted(lab: Lab) -> None:
    lab.needs("create_network", "delete_network")
    before = lab.inventory()
    created = make(lab)
    assert lab.inventory() != before
    assert ip_address(created.addresses["gateway"]) in ip_network(created.addresses["range"])
    assert isinstance(created.addresses.get("reserved", []), list)
    lab.cpi.delete_network(created.cid)
    assert lab.inventory() == before


@proves("create_network")
def test_its_cloud_properties_put_a_vm_on_it(lab: Lab) -> None:
    lab.needs("create_network")
    created = make(lab)
    address = str(ip_network(created.addresses["range"])[20])
    network = {**lab.bed.networks(lab.az, address)["default"], "cloud_properties": created.cloud_properties}
    lab.vm(networks={"default": network})


@proves("delete_network")
def test_a_network_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    lab.needs("create_network", "delete_network")
    created = make(lab)
    lab.cpi.delete_network(created.cid)
    allow_not_found(NetworkNotFound, lambda: lab.cpi.delete_network(created.cid))
    allow_not_found(NetworkNotFound, lambda: lab.cpi.delete_network("no-such-network"))


@proves("create_network")
def test_the_same_mark_makes_one_network(lab: Lab) -> None:
    lab.needs("create_network", "find")
    mark = lab.mark()
    assert make(lab, mark).cid == make(lab, mark).cid
