"""Disks on VMs: attached and detached by reconfiguring the VM; a VM that goes takes none with it."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, DiskNotFound, VMNotFound
from coterie.cpi.vsphere import sdk
from coterie.cpi.vsphere.disk_files import DiskFiles, cid_of
from coterie.cpi.vsphere.files import File
from coterie.cpi.vsphere.making import scsi
from coterie.cpi.vsphere.places import Zone
from coterie.cpi.vsphere.refusals import cloud_call

_FIRST_UNIT, _RESERVED_UNIT, _UNITS = 2, 7, 16  # 0 and 1 are the VM's own, 7 is the controller itself
_DEVICES = "config.hardware.device"


class Attachments(DiskFiles):
    @cloud_call
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        """The unit number on the VM's SCSI controller, as BOSH's agents want it."""
        machine, disk = self.require_vm(vm_cid), self.disk_file(disk_cid)
        if disk is None:
            raise DiskNotFound(f"there is no disk {disk_cid}", remedy="check the datastores of this cloud")
        devices = self.reader.one(machine, _DEVICES).get(_DEVICES) or []
        there = next((one for one in _disks(devices) if _path(one) == disk.path), None)
        if there is not None:
            return str(there.unitNumber)
        user = self.user_of(disk)
        if user is not None:
            raise CpiError(f"disk {disk_cid} is attached to VM {user}", remedy="detach it there first")
        unit = _free_unit(devices)
        self.tasks.run(machine.ReconfigVM_Task, sdk.vim.vm.ConfigSpec(deviceChange=[_added(disk, devices, unit)]))
        return str(unit)

    @cloud_call
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        """Not attached to that VM is fine: that is what was asked."""
        machine = self.require_vm(vm_cid)
        stem = disk_cid.partition("@")[0]
        devices = self.reader.one(machine, _DEVICES).get(_DEVICES) or []
        wanted = [one for one in _disks(devices) if self.persistent(_path(one)) == stem]
        self._dropped(machine, wanted)

    @cloud_call
    def get_disks(self, vm_cid: str) -> list[str]:
        devices = self.reader.one(self.require_vm(vm_cid), _DEVICES).get(_DEVICES) or []
        return [_cid(_path(one)) for one in _disks(devices) if self.persistent(_path(one))]

    def take_out(self, machine: Any, devices: list[Any]) -> None:
        """All persistent disks leave the VM, so that destroying it does not destroy them."""
        self._dropped(machine, [one for one in _disks(devices) if self.persistent(_path(one))])

    def user_of(self, disk: File) -> str | None:
        """The VM of this Director that has the disk."""
        folder = self.folder("vms")
        if folder is None:
            return None
        return self.disk_users(folder).get(disk.path)

    def disk_users(self, folder: Any) -> dict[str, str]:
        """Path of each attached disk → its VM, by the layout, which is far smaller than the devices."""
        rows = self.reader.below(folder, sdk.vim.VirtualMachine, "config.instanceUuid", "layout.disk")
        return {
            path: str(row.get("config.instanceUuid"))
            for row in rows
            for one in row.get("layout.disk") or ()
            for path in one.diskFile
        }

    def persistent(self, path: str) -> str | None:
        """The stem of a persistent disk's file, whichever Director's; None for a VM's own disk."""
        where, _, name = path.partition("] ")[2].rpartition("/")
        parts = where.split("/")
        inside = where.startswith(f"{self.settings.folder.strip('/')}/") and parts[-1] == "disks"
        return name.removesuffix(".vmdk") if inside else None

    def vm(self, cid: str) -> Any | None:
        """The VM with this id; a template is none."""
        found = self.machine(cid)
        if found is None or self.reader.one(found, "config.template").get("config.template"):
            return None
        return found

    def require_vm(self, cid: str) -> Any:
        found = self.vm(cid)
        if found is None:
            raise VMNotFound(f"there is no VM {cid[:64]}", remedy="deploy again, which makes it anew")
        return found

    def zones_of(self, machine: Any) -> list[Zone]:
        """The cluster that the VM is in, if it is one of ours."""
        owner = self.reader.one(self.reader.one(machine, "resourcePool").get("resourcePool"), "owner").get("owner")
        return [zone for zone in self.zones().values() if zone.cluster == owner][:1]

    def _dropped(self, machine: Any, disks: list[Any]) -> None:
        if disks:
            # without a file operation the file stays
            changes = [sdk.vim.vm.device.VirtualDeviceSpec(operation="remove", device=one) for one in disks]
            self.tasks.run(machine.ReconfigVM_Task, sdk.vim.vm.ConfigSpec(deviceChange=changes))


def _disks(devices: list[Any]) -> list[Any]:
    return [one for one in devices if isinstance(one, sdk.vim.vm.device.VirtualDisk)]


def _path(disk: Any) -> str:
    return str(getattr(disk.backing, "fileName", "") or "")


def _cid(path: str) -> str:
    store, _, name = path.removeprefix("[").partition("] ")
    return cid_of(File(store, "", name.rpartition("/")[2], None, None))


def _free_unit(devices: list[Any]) -> int:
    key = scsi(devices).key
    taken = {one.unitNumber for one in devices if one.controllerKey == key}
    for unit in range(_FIRST_UNIT, _UNITS):
        if unit not in taken and unit != _RESERVED_UNIT:
            return unit
    raise CpiError("the VM has no place for another disk", why="15 is the most per controller", remedy="detach one")


def _added(disk: File, devices: list[Any], unit: int) -> Any:
    device = sdk.vim.vm.device
    backing = device.VirtualDisk.FlatVer2BackingInfo(fileName=disk.path, diskMode="independent_persistent")
    made = device.VirtualDisk(
        key=-1,
        controllerKey=scsi(devices).key,
        unitNumber=unit,
        capacityInKB=(disk.size_mb or 0) * 1024,
        backing=backing,
    )
    return device.VirtualDeviceSpec(operation="add", device=made)
