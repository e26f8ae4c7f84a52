"""Disks on local storage: the VM is put where its disk is, or the disk is moved to where its VM is."""

from __future__ import annotations

from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError


def host_of(bed: CloudstackBed, vm: str) -> str:
    found: dict[str, Any] = bed.client().listVirtualMachines(id=vm)["virtualmachine"][0]
    return str(found["hostid"])


def local_disk(lab: Lab, vm: str, size_mb: int = 1024) -> str:
    """A disk that was attached to this VM once, and so is on its host for good."""
    disk = lab.cpi.create_disk(size_mb, {"disk_offering": "local"}, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    lab.cpi.attach_disk(vm, disk)
    lab.cpi.detach_disk(vm, disk)
    return disk


def spread(bed: CloudstackBed, lab: Lab) -> tuple[str, str]:
    """Two VMs on different hosts."""
    first, second = lab.vm(), lab.vm()
    assert host_of(bed, first) != host_of(bed, second)
    return first, second


def test_a_vm_is_put_where_its_disk_is(bed: CloudstackBed, lab: Lab) -> None:
    first, _ = spread(bed, lab)
    disk = local_disk(lab, first)
    moves = bed.witness.seen["migrateVolume"]
    successor = lab.vm(disk_cids=[disk])
    assert host_of(bed, successor) == host_of(bed, first)
    lab.cpi.attach_disk(successor, disk)
    assert bed.witness.seen["migrateVolume"] == moves
    lab.cpi.detach_disk(successor, disk)


def test_a_disk_is_moved_to_a_vm_that_is_elsewhere(bed: CloudstackBed, lab: Lab) -> None:
    first, second = spread(bed, lab)
    disk = local_disk(lab, first)
    assert lab.cpi.attach_disk(second, disk)
    assert lab.cpi.get_disks(second) == [disk]
    lab.cpi.detach_disk(second, disk)
    assert host_of(bed, lab.vm(disk_cids=[disk])) == host_of(bed, second)


def test_of_disks_on_several_hosts_the_largest_stays(bed: CloudstackBed, lab: Lab) -> None:
    first, second = spread(bed, lab)
    small, large = local_disk(lab, first), local_disk(lab, second, 4096)
    vm = lab.vm(disk_cids=[small, large])
    assert host_of(bed, vm) == host_of(bed, second)
    for disk in (small, large):
        lab.cpi.attach_disk(vm, disk)
    assert sorted(lab.cpi.get_disks(vm)) == sorted([small, large])
    for disk in (small, large):
        lab.cpi.detach_disk(vm, disk)


def test_moves_can_be_forbidden_and_are_refused_before_anything_is_made(bed: CloudstackBed, lab: Lab) -> None:
    first, second = spread(bed, lab)
    disks = [local_disk(lab, first), local_disk(lab, second)]
    bed.more = {"migrate_local_disks": False}
    cpi = bed.open()
    with pytest.raises(CpiError, match="another host"):
        cpi.attach_disk(second, disks[0])
    deploys = bed.witness.seen["deployVirtualMachine"]
    with pytest.raises(CpiError, match="different hosts") as caught:
        cpi.create_vm(**lab.vm_arguments(disk_cids=disks))
    assert "migrate_local_disks" in caught.value.remedy
    assert bed.witness.seen["deployVirtualMachine"] == deploys
