"""Killed after any of its calls, a method leaves nothing that a sweep by marks does not find."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cpi.openstack.killing import every_point, killed_at, sweep

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, Mark, SecurityGroup

pytestmark = pytest.mark.timeout(900)


@pytest.mark.short
def test_create_vm_killed_after_its_boot_is_swept_and_the_address_is_free(bed: OpenstackBed, lab: Lab) -> None:
    image, before = lab.image(), None
    address = str(bed.address("z1"))
    networks = bed.networks("z1", address)

    def act(cpi: Cpi, mark: Mark) -> None:
        cpi.create_vm(**lab.vm_arguments(networks=networks, mark=mark))

    before = bed.inventory()
    for calls in range(3, 30):
        assert killed_at(bed, act, calls, lab.mark())
        if any(kind == "vm" for kind, _ in bed.inventory()):
            break
        sweep(bed, {image})
    sweep(bed, {image})
    assert bed.inventory() == before
    lab.vm(networks=networks)


def test_create_vm(bed: OpenstackBed, lab: Lab) -> None:
    group, image = lab.group(security_groups=[SecurityGroup("web")]), lab.image()
    guards = {one.cid for one in lab.cpi.inspect_server_group(group).resources}
    networks = bed.networks("z1", "10.20.7.7")

    def act(cpi: Cpi, mark: Mark) -> None:
        arguments = lab.vm_arguments("z1", group, networks=networks, mark=mark)
        lab.undo(lab.cpi.delete_vm, cpi.create_vm(**arguments).cid)

    assert every_point(bed, act, {group, image, *guards}, lab.mark) > 4


def test_create_vm_with_everything(bed: OpenstackBed, lab: Lab) -> None:
    """Root disk as a volume, a floating IP."""
    image = lab.image()
    properties = {**bed.vm_properties("z1"), "boot_from_volume": True, "root_disk": {"size": 2}}
    public = {"type": "vip", "ip": bed.floating_ip(), "cloud_properties": {}}
    networks = {**bed.networks("z1", "10.20.7.7"), "public": public}
    keep = {image, *(cid for _, cid in bed.inventory())}

    def act(cpi: Cpi, mark: Mark) -> None:
        arguments = lab.vm_arguments("z1", cloud_properties=properties, networks=networks, mark=mark)
        lab.undo(lab.cpi.delete_vm, cpi.create_vm(**arguments).cid)

    assert every_point(bed, act, keep, lab.mark) > 6


def test_delete_vm(bed: OpenstackBed, lab: Lab) -> None:
    image, disk = lab.image(), lab.disk()
    networks = bed.networks("z1", "10.20.7.7")

    def act(cpi: Cpi, mark: Mark) -> None:
        vm = bed.open().create_vm(**lab.vm_arguments(networks=networks, mark=mark))
        bed.open().attach_disk(vm.cid, disk)
        cpi.delete_vm(vm.cid)

    assert every_point(bed, act, {image, disk}, lab.mark) > 3


def test_create_disk_and_snapshot(bed: OpenstackBed, lab: Lab) -> None:
    disk = lab.disk()

    def act(cpi: Cpi, mark: Mark) -> None:
        lab.undo(lab.cpi.delete_disk, cpi.create_disk(1024, {}, mark=mark))
        lab.undo(lab.cpi.delete_snapshot, cpi.snapshot_disk(disk, {"index": 0}, mark=lab.mark()))

    assert every_point(bed, act, {disk}, lab.mark) > 3


def test_create_stemcell(bed: OpenstackBed, lab: Lab) -> None:
    path, properties = bed.image()

    def act(cpi: Cpi, mark: Mark) -> None:
        lab.undo(lab.cpi.delete_stemcell, cpi.create_stemcell(path, properties, mark=mark))

    assert every_point(bed, act, set(), lab.mark) > 2


@pytest.mark.parametrize("policy", ["anti-affinity", None])
def test_server_groups(bed: OpenstackBed, lab: Lab, policy: str | None) -> None:
    guards = [SecurityGroup("web", ({"ports": "80"},)), SecurityGroup("ssh")]
    wanted = replace(lab.metadata(security_groups=guards), policy=policy)

    def act(cpi: Cpi, mark: Mark) -> None:
        cid = cpi.create_server_group(wanted, mark=mark)
        lab.undo(lab.cpi.delete_server_group, cid)
        cpi.delete_server_group(cid)

    assert every_point(bed, act, set(), lab.mark) > 5
