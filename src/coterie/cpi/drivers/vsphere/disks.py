"""Persistent disks: files of their own in our folder of a datastore, so that they outlive every VM."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import (
    CpiError,
    DiskNotFound,
    InvalidCall,
    Json,
    Mark,
    NotSupported,
)
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.attachments import Attachments
from coterie.cpi.drivers.vsphere.choice import Store, chosen
from coterie.cpi.drivers.vsphere.disk_files import cid_of
from coterie.cpi.drivers.vsphere.files import File
from coterie.cpi.drivers.vsphere.order import read_disk_order
from coterie.cpi.drivers.vsphere.refusals import Refusal, cloud_call

_MISSING_FOLDER = ("FileNotFound", "CannotCreateFile")


class Disks(Attachments):
    @cloud_call
    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        order = read_disk_order(cloud_properties or {})
        if isinstance(size_mb, bool) or not isinstance(size_mb, int) or size_mb < 1:
            raise InvalidCall(f"size_mb is {size_mb!r}", remedy="give a whole number above 0")
        found = self.find_file("disks", mark.name())
        if found is not None:
            return cid_of(found)
        zones = self.zones_of(self.require_machine(vm_cid)) if vm_cid else []
        zones = self.in_zone(order.zone) if order.zone else zones
        patterns = order.datastores or self.settings.persistent_datastores
        store = chosen(self.stores(zones, patterns), mark.intent, size_mb)
        path = self.file_path(store.name, "disks", mark.name())
        self._create(path, size_mb, order.type, store)
        return cid_of(File(store.name, "", f"{mark.name()}.vmdk", size_mb, None))

    @cloud_call
    def delete_disk(self, disk_cid: str) -> None:
        found = self.disk_file(disk_cid)
        if found is None:
            return
        user = self.user_of(found)
        if user is not None:
            raise CpiError(f"disk {disk_cid} is attached to VM {user}", remedy="detach it first")
        self.deleted_disk(found.path)

    @cloud_call
    def has_disk(self, disk_cid: str) -> bool:
        return self.disk_file(disk_cid) is not None

    @cloud_call
    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        found = self.require_disk(disk_cid)
        if found.size_mb is not None and new_size_mb < found.size_mb:
            raise NotSupported(
                f"disk {disk_cid} has {found.size_mb} MB and cannot shrink", remedy="copy the data to a smaller disk"
            )
        if found.size_mb == new_size_mb:
            return
        if self.user_of(found) is not None:
            raise CpiError(f"disk {disk_cid} is attached", remedy="detach it before it is resized")
        manager = self.link.content.virtualDiskManager
        self.tasks.run(manager.ExtendVirtualDisk_Task, found.path, self.datacenter.ref, new_size_mb * 1024, False)

    @cloud_call
    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        """In place; the way a disk is provisioned is fixed for its life."""
        order = read_disk_order(cloud_properties or {})
        if "type" in (cloud_properties or {}) and order.type != "thin":
            raise NotSupported("a disk keeps its type for life", remedy="make a new disk and copy the data")
        self.resize_disk(disk_cid, new_size_mb)
        return None

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        raise NotSupported("a disk is a file and carries no metadata", remedy="look at the VM's metadata")

    def require_disk(self, disk_cid: str) -> File:
        found = self.disk_file(disk_cid)
        if found is None:
            raise DiskNotFound(f"there is no disk {disk_cid}", remedy="check the datastores of this cloud")
        return found

    def _create(self, path: str, size_mb: int, kind: str, store: Store) -> None:
        spec = sdk.vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
            diskType={"thick": "preallocated"}.get(kind, kind), adapterType="lsiLogic", capacityKb=size_mb * 1024
        )
        create = self.link.content.virtualDiskManager.CreateVirtualDisk_Task
        for again in (True, False):
            try:
                self.tasks.run(create, path, self.datacenter.ref, spec)
                return
            except Refusal as refusal:
                if refusal.is_a("FileAlreadyExists"):
                    return  # made by somebody else under the same mark
                if not (again and refusal.is_a(*_MISSING_FOLDER)):
                    raise
            self.made_directory(path.rpartition("/")[0])
