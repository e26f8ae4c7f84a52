"""Which VM has a disk's file: any VM of the datacenter, since an operator may attach a disk of ours to their own."""

from __future__ import annotations

from coterie.cpi.drivers.vsphere.disk_files import DiskFiles
from coterie.cpi.drivers.vsphere.files import File


class DiskUsers(DiskFiles):
    def user_of(self, disk: File) -> str | None:
        """The VM that has the disk, whosever it is."""
        return self.disk_users().get(disk.path)

    def disk_users(self) -> dict[str, str]:
        """Path of each attached disk → its VM, by the layout, which is far smaller than the devices."""
        place = self.datacenter
        rows = self.reader.machines(place.ref, place.vm_folder, "config.instanceUuid", "layout.disk")
        return {
            path: str(row.get("config.instanceUuid") or row.ref._moId)
            for row in rows
            for one in row.get("layout.disk") or ()
            for path in one.diskFile
        }
