"""Disks on VMs: attached once or twice it is the same, and a VM takes no disk with it when it goes."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import allow_not_found, expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError, DiskHint, DiskNotAttached, DiskNotFound, VMNotFound


def attach(lab: Lab, vm: str, disk: str) -> DiskHint:
    hint = lab.cpi.attach_disk(vm, disk)
    lab.undo(partial(allow_not_found, CpiError, partial(lab.cpi.detach_disk, vm, disk)))
    return hint


@proves("attach_disk", "get_disks", "detach_disk")
def test_a_disk_is_attached_listed_and_detached(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    assert lab.cpi.get_disks(vm) == []
    attach(lab, vm, disk)
    assert lab.cpi.get_disks(vm) == [disk]
    lab.cpi.detach_disk(vm, disk)
    assert lab.cpi.get_disks(vm) == []
    assert lab.cpi.has_disk(disk) is True


@proves("attach_disk")
def test_the_hint_says_something_and_stays_the_same(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    hint = attach(lab, vm, disk)
    assert hint
    assert isinstance(hint, str) or all(isinstance(value, str | dict) for value in hint.values())
    assert lab.cpi.attach_disk(vm, disk) == hint
    assert lab.cpi.get_disks(vm) == [disk]


@proves("attach_disk")
def test_two_disks_have_two_hints(lab: Lab) -> None:
    vm = lab.vm()
    assert attach(lab, vm, lab.disk()) != attach(lab, vm, lab.disk())
    assert len(lab.cpi.get_disks(vm)) == 2


@proves("attach_disk")
def test_a_disk_is_attached_to_one_vm_at_a_time(lab: Lab) -> None:
    first, second, disk = lab.vm(), lab.vm(), lab.disk()
    attach(lab, first, disk)
    expect_error(CpiError, lambda: lab.cpi.attach_disk(second, disk))
    assert lab.cpi.get_disks(first) == [disk]
    assert lab.cpi.get_disks(second) == []


@proves("attach_disk", "detach_disk")
def test_what_is_not_there_cannot_be_attached_or_detached(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    expect_error(VMNotFound, lambda: lab.cpi.attach_disk("no-such-vm", disk))
    expect_error(DiskNotFound, lambda: lab.cpi.attach_disk(vm, "no-such-disk"))
    for missing in (("no-such-vm", disk), (vm, "no-such-disk")):
        allow_not_found(CpiError, partial(lab.cpi.detach_disk, *missing))


@proves("detach_disk")
def test_a_detached_disk_can_be_detached_again(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    allow_not_found(DiskNotAttached, lambda: lab.cpi.detach_disk(vm, disk))
    attach(lab, vm, disk)
    lab.cpi.detach_disk(vm, disk)
    allow_not_found(DiskNotAttached, lambda: lab.cpi.detach_disk(vm, disk))


@proves("delete_vm", "attach_disk")
def test_a_persistent_disk_outlives_its_vm_and_moves_on(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    attach(lab, vm, disk)
    lab.cpi.delete_vm(vm)
    assert lab.cpi.has_disk(disk) is True
    successor = lab.vm(disk_cids=[disk])
    attach(lab, successor, disk)
    assert lab.cpi.get_disks(successor) == [disk]


@proves("delete_disk")
def test_a_disk_in_use_is_not_deleted_from_under_its_vm(lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    attach(lab, vm, disk)
    expect_error(CpiError, lambda: lab.cpi.delete_disk(disk))
    assert lab.cpi.get_disks(vm) == [disk]
