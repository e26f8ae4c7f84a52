"""Persistent disks in other hands: moved by Storage vMotion, or attached by an operator to a VM of their own."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Expected, Mark, OutcomeUnknown
from coterie.cpi.drivers.vsphere.driver import VsphereCpi


def home(bed: VsphereBed, disk: str) -> str:
    stem, _, store = disk.partition("@")
    return f"[{store}] coterie/{bed.director_uuid}/disks/{stem}.vmdk"


def plug(bed: VsphereBed, machine: Any, path: str, unit: int, mode: str) -> None:
    """Attach a disk as a person does it."""
    devices = bed.operator.get(machine, "config.hardware.device")
    scsi = next(one for one in devices if isinstance(one, vim.vm.device.VirtualSCSIController))
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode=mode)
    disk = vim.vm.device.VirtualDisk(
        key=-1, controllerKey=scsi.key, unitNumber=unit, capacityInKB=1024, backing=backing
    )
    change = vim.vm.device.VirtualDeviceSpec(operation="add", device=disk)
    bed.operator.run(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))


def unplug(bed: VsphereBed, machine: Any, path: str) -> None:
    devices = bed.operator.get(machine, "config.hardware.device")
    disk = next(one for one in devices if getattr(one.backing, "fileName", None) == path)
    change = vim.vm.device.VirtualDeviceSpec(operation="remove", device=disk)
    bed.operator.run(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))


def move(bed: VsphereBed, source: str, target: str) -> None:
    datacenter, content = bed.operator.find("DC0"), bed.operator.content
    content.fileManager.MakeDirectory(target.rpartition("/")[0], datacenter, True)
    bed.operator.run(content.virtualDiskManager.MoveVirtualDisk_Task(source, datacenter, target, datacenter))


def vmotion(bed: VsphereBed, vm: str, disk: str, unit: int, mode: str) -> str:
    """Where Storage vMotion leaves an attached disk: beside the VM, under the VM's name."""
    machine = bed.operator.machine(vm)
    name = bed.operator.get(machine, "name")
    target = f"[LocalDS_1] {name}/{name}_2.vmdk"
    unplug(bed, machine, home(bed, disk))
    move(bed, home(bed, disk), target)
    plug(bed, machine, target, unit, mode)
    return target


@pytest.mark.parametrize(("unit", "mode"), [(2, "persistent"), (1, "independent_persistent")])
def test_a_disk_that_moved_with_its_vm_is_known_by_its_uuid_and_goes_home(
    bed: VsphereBed, lab: Lab, unit: int, mode: str
) -> None:
    vm = lab.vm(cloud_properties={"cpu": 1, "ram": 512, "disk": 0, "zone": "z1"})
    mark = lab.mark()
    disk = lab.cpi.create_disk(64, {}, mark=mark)
    lab.cpi.attach_disk(vm, disk)
    moved = vmotion(bed, vm, disk, unit, mode)
    found = lab.cpi.find("disk", mark)
    assert (lab.cpi.has_disk(disk), lab.cpi.attach_disk(vm, disk)) == (True, str(unit))
    assert (found.state, found.in_use_by) == ("attached", (vm,)) if found else False
    assert [one.partition("@")[0] for one in lab.cpi.get_disks(vm)] == [disk.partition("@")[0]]
    lab.cpi.detach_disk(vm, disk)
    assert (lab.cpi.get_disks(vm), lab.cpi.has_disk(disk)) == ([], True)
    assert ("file", moved) not in bed.inventory()
    lab.cpi.attach_disk(vm, disk)
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_disk(disk)


@pytest.mark.parametrize("last", ["detach_disk", "delete_vm"])
def test_a_process_that_dies_while_a_moved_disk_leaves_loses_nothing(bed: VsphereBed, lab: Lab, last: str) -> None:
    vm, disk = lab.vm(), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    moved = vmotion(bed, vm, disk, 2, "persistent")
    bed.server.bend("MoveVirtualDisk_Task", "fault", fault="SystemError")
    expect_error(CpiError, lambda: lab.cpi.detach_disk(vm, disk))
    assert ("file", moved) in bed.inventory()
    getattr(lab.cpi, last)(*(vm, disk)[: 2 if last == "detach_disk" else 1])
    assert (("file", moved) in bed.inventory(), lab.cpi.has_disk(disk)) == (False, True)


def test_a_datastore_that_goes_away_meanwhile_is_not_taken_for_the_vm(bed: VsphereBed, lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    gone = '<obj type="Datastore">datastore-999</obj>'
    bed.server.bend("SearchDatastore_Task", "fault", fault="ManagedObjectNotFound", detail=gone)
    assert expect_error(CpiError, lambda: lab.cpi.delete_vm(vm)).retryable
    assert bed.operator.machine(vm) is not None
    lab.cpi.delete_vm(vm)
    assert (bed.operator.machine(vm), lab.cpi.has_disk(disk)) == (None, True)


def test_disks_whose_paths_have_the_uuid_of_a_namespace(bed: VsphereBed, lab: Lab) -> None:
    """As vSAN shows them; seen on VMs only, the disk manager takes both."""
    bed.server.show_namespaces()
    lab.undo(bed.server.show_namespaces, False)
    vm, disk = lab.vm(), lab.disk()
    hint = lab.cpi.attach_disk(vm, disk)
    assert lab.cpi.attach_disk(vm, disk) == hint
    assert lab.cpi.get_disks(vm) == [disk]
    machine = bed.operator.machine(vm)
    assert len([one for one in bed.operator.disk_files(machine) if "/disks/" in one]) == 1
    expect_error(CpiError, lambda: lab.cpi.delete_disk(disk))
    assert lab.cpi.has_disk(disk)
    (found,) = [one for one in lab.cpi.survey("disk", bed.director_uuid).objects if one.cid == disk]
    assert found.in_use_by == (vm,)
    lab.cpi.detach_disk(vm, disk)
    assert [one for one in bed.operator.disk_files(machine) if "/disks/" in one] == []


def test_a_disk_at_its_place_is_not_taken_for_an_operators_disk_on_the_vm(bed: VsphereBed, lab: Lab) -> None:
    vm, disk, theirs = lab.vm(), lab.disk(), lab.disk()
    target = "[LocalDS_1] theirs/data.vmdk"
    move(bed, home(bed, theirs), target)
    plug(bed, bed.operator.machine(vm), target, 2, "persistent")
    lab.cpi.detach_disk(vm, disk)
    assert len(bed.operator.get(bed.operator.machine(vm), "layout.disk")) == 3
    lab.cpi.delete_vm(vm)
    move(bed, target, home(bed, theirs))


def rescue(bed: VsphereBed, lab: Lab, path: str) -> tuple[str, Any]:
    """A VM of an operator's own, in no folder of ours, which holds the disk."""
    cid = bed.operator.create_vm("rescue", "z1")
    lab.undo(bed.operator.delete, "vm", cid)
    machine = bed.operator.machine(cid)
    controller = vim.vm.device.VirtualLsiLogicController(key=-1, busNumber=0, sharedBus="noSharing")
    change = vim.vm.device.VirtualDeviceSpec(operation="add", device=controller)
    bed.operator.run(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
    plug(bed, machine, path, 0, "persistent")
    lab.undo(unplug, bed, machine, path)
    return cid, machine


@pytest.mark.parametrize("others", [True, False])
def test_a_disk_on_an_operators_vm_is_in_use_and_not_deleted(bed: VsphereBed, lab: Lab, others: bool) -> None:
    """Whether or not we have VMs, and hence a folder for them."""
    disk = lab.disk()
    if others:
        lab.vm()
    cid, _ = rescue(bed, lab, home(bed, disk))
    (listed,) = [one for one in lab.cpi.survey("disk", bed.director_uuid).objects if one.cid == disk]
    assert (listed.in_use_by, listed.state) == ((cid,), "attached")
    expected = Expected(mark=listed.mark, created_at=listed.created_at, etag=listed.etag)
    for delete in (lambda: lab.cpi.delete_disk(disk), lambda: lab.cpi.delete_object("disk", disk, expected)):
        assert cid in expect_error(CpiError, delete).what
    assert ("file", home(bed, disk)) in bed.inventory()


def test_a_snapshot_on_an_operators_vm_is_in_use_and_not_deleted(bed: VsphereBed, lab: Lab) -> None:
    copy = lab.cpi.snapshot_disk(lab.disk(), {}, mark=lab.mark())
    lab.undo(lab.cpi.delete_snapshot, copy)
    path = home(bed, copy).replace("/disks/", "/snapshots/")
    cid, _ = rescue(bed, lab, path)
    (listed,) = lab.cpi.survey("snapshot", bed.director_uuid).objects
    assert listed.in_use_by == (cid,)
    expected = Expected(mark=listed.mark, created_at=listed.created_at, etag=listed.etag)
    for delete in (lambda: lab.cpi.delete_snapshot(copy), lambda: lab.cpi.delete_object("snapshot", copy, expected)):
        assert cid in expect_error(CpiError, delete).what
    assert ("file", path) in bed.inventory()


@pytest.mark.parametrize("shelf", ["disks", "snapshots"])
def test_a_file_in_our_folder_that_does_not_bear_our_mark_is_left_alone(bed: VsphereBed, lab: Lab, shelf: str) -> None:
    disk = lab.disk()
    source, stranger = home(bed, disk), Mark(str(uuid.uuid4()), lab.ids.intent()).name()
    theirs = f"[LocalDS_0] coterie/{bed.director_uuid}/{shelf}/{stranger}.vmdk"
    bed.operator.content.fileManager.MakeDirectory(theirs.rpartition("/")[0], bed.operator.find("DC0"), True)
    move(bed, source, theirs)
    lab.cpi.delete_disk(f"{stranger}@LocalDS_0")
    lab.cpi.delete_snapshot(f"{stranger}@LocalDS_0")
    assert ("file", theirs) in bed.inventory()
    move(bed, theirs, source)


def test_a_vm_that_lies_in_no_folder_is_found_by_its_datastore(bed: VsphereBed, lab: Lab) -> None:
    """As one in a vApp does, which the simulator cannot hold: so the folder that is looked through has no VM."""
    cpi = bed.open()
    assert isinstance(cpi, VsphereCpi)
    cid, _ = rescue(bed, lab, home(bed, lab.disk()))
    rows = cpi.client.list_vms(cpi.inventory.datacenter.ref, bed.operator.find("DC0/network"), "config.instanceUuid")
    assert cid in [row.get("config.instanceUuid") for row in rows]


def test_a_disk_that_moved_with_its_vm_is_in_use_and_not_deleted(bed: VsphereBed, lab: Lab) -> None:
    vm, disk = lab.vm(cloud_properties={"cpu": 1, "ram": 512, "disk": 0, "zone": "z1"}), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    moved = vmotion(bed, vm, disk, 2, "persistent")
    assert vm in expect_error(CpiError, lambda: lab.cpi.delete_disk(disk)).what
    assert ("file", moved) in bed.inventory()
    lab.cpi.detach_disk(vm, disk)


def cut_short(bed: VsphereBed, path: str) -> None:
    manager, datacenter = bed.operator.content.virtualDiskManager, bed.operator.find("DC0")
    bed.operator.run(manager.DeleteVirtualDisk_Task(path, datacenter))
    spec = vim.VirtualDiskManager.FileBackedVirtualDiskSpec(diskType="thin", adapterType="lsiLogic", capacityKb=1024)
    bed.operator.run(manager.CreateVirtualDisk_Task(path, datacenter, spec))


@pytest.mark.parametrize("method", ["CopyVirtualDisk_Task", "MoveVirtualDisk_Task"])
def test_a_copy_that_was_cut_short_is_not_taken_for_a_whole_one(bed: VsphereBed, lab: Lab, method: str) -> None:
    """The vCenter dies while it copies: what it has written so far is there under the copy's name."""
    disk, mark = lab.disk(), lab.mark()
    bed.server.bend(method, "drop_after" if method == "CopyVirtualDisk_Task" else "drop_before")
    expect_error(OutcomeUnknown, lambda: lab.cpi.snapshot_disk(disk, {}, mark=mark))
    if method == "CopyVirtualDisk_Task":
        (path,) = [name for kind, name in bed.inventory() if kind == "file" and mark.intent in name]
        cut_short(bed, path)
    assert lab.cpi.find("snapshot", mark) is None
    copy = lab.cpi.snapshot_disk(disk, {}, mark=mark)
    assert [one.cid for one in lab.cpi.survey("snapshot", bed.director_uuid).objects] == [copy]
    assert size_mb(bed, copy) == size_mb(bed, disk)
    assert lab.cpi.snapshot_disk(disk, {}, mark=mark) == copy
    lab.cpi.delete_snapshot(copy)


def size_mb(bed: VsphereBed, cid: str) -> int | None:
    cpi = bed.open()
    assert isinstance(cpi, VsphereCpi)
    found = cpi.disks._find("snapshot", cid) or cpi.disks._find("disk", cid)
    return found.size_mb if found else None
