"""Snapshots of persistent disks: whole copies beside them. vSphere snapshots VMs, and our disks are independent of
those on purpose, so a disk can be copied only while no running VM writes to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, Mark
from coterie.cpi.drivers.vsphere.disk_files import cid_of
from coterie.cpi.drivers.vsphere.disks import Disks
from coterie.cpi.drivers.vsphere.files import File
from coterie.cpi.drivers.vsphere.refusals import Refusal, cloud_call


class Snapshots(Disks):
    @cloud_call
    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        disk = self.require_disk(disk_cid)
        self._require_rest(disk, disk_cid)
        target = self.file_path(disk.store, "snapshots", mark.name())
        copy = self.link.content.virtualDiskManager.CopyVirtualDisk_Task
        self.made_directory(target.rpartition("/")[0])
        try:
            self.tasks.run(copy, disk.path, self.datacenter.ref, target, self.datacenter.ref, None, False)
        except Refusal as refusal:
            if not refusal.is_a("FileAlreadyExists"):
                raise
        return cid_of(File(disk.store, "", f"{mark.name()}.vmdk", None, None))

    @cloud_call
    def delete_snapshot(self, snapshot_cid: str) -> None:
        found = self.snapshot_file(snapshot_cid)
        if found is None:
            return
        user = self.user_of(found)
        if user is not None:  # somebody restored what it holds by putting it into a VM
            raise CpiError(f"snapshot {snapshot_cid} is attached to VM {user}", remedy="detach it first")
        self.deleted_disk(found.path)

    def _require_rest(self, disk: File, cid: str) -> None:
        user = self.user_of(disk)
        if user is None:
            return
        machine = self.require_vm(user)
        if self.reader.one(machine, "runtime.powerState").get("runtime.powerState") != "poweredOff":
            raise CpiError(
                f"disk {cid} cannot be copied while VM {user} runs",
                why="its file is locked, and an independent disk takes no part in the VM's snapshots",
                remedy="stop the VM or detach the disk first",
            )
