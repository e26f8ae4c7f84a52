"""Disks on VMs: attached and detached by reconfiguring the VM; a VM that goes takes none with it."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, DiskNotFound, VMNotFound
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.disk_files import cid_of
from coterie.cpi.drivers.vsphere.disk_users import DiskUsers
from coterie.cpi.drivers.vsphere.files import File
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.refusals import cloud_call
from coterie.cpi.drivers.vsphere.virtual_disks import added, disks, free_unit, is_own, path_of, removed

_DEVICES = "config.hardware.device"


class Attachments(DiskUsers):
    @cloud_call
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        """The unit number on the VM's SCSI controller, as BOSH's agents want it."""
        machine, disk = self.require_vm(vm_cid), self.disk_file(disk_cid)
        if disk is None:
            raise DiskNotFound(f"there is no disk {disk_cid}", remedy="check the datastores of this cloud")
        devices = self.reader.one(machine, _DEVICES).get(_DEVICES) or []
        there = next((one for one in disks(devices) if path_of(one) == disk.path), None)
        if there is not None:
            return str(there.unitNumber)
        user = self.user_of(disk)
        if user is not None:
            raise CpiError(f"disk {disk_cid} is attached to VM {user}", remedy="detach it there first")
        unit = free_unit(devices)
        self.tasks.run(machine.ReconfigVM_Task, sdk.vim.vm.ConfigSpec(deviceChange=[added(disk, devices, unit)]))
        return str(unit)

    @cloud_call
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        """Not attached to that VM is fine: that is what was asked. But it may be there under another name."""
        machine = self.require_vm(vm_cid)
        stem = disk_cid.partition("@")[0]
        attached = disks(self.reader.one(machine, _DEVICES).get(_DEVICES) or [])
        wanted = [one for one in attached if self.persistent(path_of(one)) == stem]
        if not wanted:
            self._require_elsewhere(vm_cid, disk_cid, attached)
        self._dropped(machine, wanted)

    @cloud_call
    def get_disks(self, vm_cid: str) -> list[str]:
        devices = self.reader.one(self.require_vm(vm_cid), _DEVICES).get(_DEVICES) or []
        return [_cid(path_of(one)) for one in disks(devices) if self.persistent(path_of(one))]

    def take_out(self, machine: Any, devices: list[Any]) -> None:
        """All disks but the VM's own leave it, so that destroying it does not destroy them."""
        self._dropped(machine, [one for one in disks(devices) if self.persistent(path_of(one)) or not is_own(one)])

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

    def _require_elsewhere(self, vm_cid: str, disk_cid: str, attached: list[Any]) -> None:
        """A disk whose file is not where it should be may be one that we cannot recognise on this VM."""
        strange = [path_of(one) for one in attached if not is_own(one) and not self.persistent(path_of(one))]
        if strange and self.disk_file(disk_cid) is None:
            raise CpiError(
                f"disk {disk_cid} cannot be told from others on VM {vm_cid}",
                why=f"its file is not in our folder, and the VM has {', '.join(strange)}, moved there by somebody",
                remedy=f"stop the VM, detach that disk and move its file to {self._home(disk_cid)}",
            )

    def _home(self, disk_cid: str) -> str:
        stem, _, store = disk_cid.partition("@")
        return self.file_path(store, "disks", stem)

    def _dropped(self, machine: Any, leaving: list[Any]) -> None:
        if leaving:
            spec = sdk.vim.vm.ConfigSpec(deviceChange=[removed(one) for one in leaving])
            self.tasks.run(machine.ReconfigVM_Task, spec)


def _cid(path: str) -> str:
    store, _, name = path.removeprefix("[").partition("] ")
    return cid_of(File(store, "", name.rpartition("/")[2], None, None))
