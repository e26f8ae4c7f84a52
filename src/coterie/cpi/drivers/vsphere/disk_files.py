"""Where persistent disks and their copies lie: `[datastore] FOLDER/DIRECTOR/{disks,snapshots}/MARK.vmdk`.

A cid names the mark and, as a hint, the datastore; a disk that was moved to another one is still found.
"""

from __future__ import annotations

from typing import Literal

from coterie.cpi.drivers.vsphere.choice import Store
from coterie.cpi.drivers.vsphere.files import File, Files
from coterie.cpi.drivers.vsphere.marking import file_mark
from coterie.cpi.drivers.vsphere.refusals import Refusal

Shelf = Literal["disks", "snapshots"]
_SEPARATOR = "@"


class DiskFiles(Files):
    def shelf(self, which: Shelf, director_uuid: str | None = None) -> str:
        return f"{self.settings.folder.strip('/')}/{director_uuid or self.runtime.director_uuid}/{which}"

    def file_path(self, store: str, which: Shelf, stem: str) -> str:
        return f"[{store}] {self.shelf(which)}/{stem}.vmdk"

    def disk_file(self, cid: str) -> File | None:
        return self._by_cid("disks", cid)

    def snapshot_file(self, cid: str) -> File | None:
        return self._by_cid("snapshots", cid)

    def find_file(self, which: Shelf, stem: str, hint: str | None = None) -> File | None:
        for store in self._likely(hint):
            for found in self.disk_files(store, self.shelf(which), f"{stem}.vmdk"):
                if found.stem == stem:  # the datastore takes a name for a pattern
                    return found
        return None

    def deleted_disk(self, path: str) -> None:
        manager = self.link.content.virtualDiskManager
        try:
            self.tasks.run(manager.DeleteVirtualDisk_Task, path, self.datacenter.ref)
        except Refusal as refusal:
            if not refusal.is_a("FileNotFound"):
                raise

    def _by_cid(self, which: Shelf, cid: str) -> File | None:
        """Only what bears this Director's mark: whoever puts another file into our folder has it there in peace."""
        stem, _, hint = cid.partition(_SEPARATOR)
        return self.find_file(which, stem, hint) if file_mark(stem, self.runtime.director_uuid) else None

    def _likely(self, hint: str | None) -> list[Store]:
        """All datastores of the datacenter, the likeliest first."""
        return sorted(self.stores([], ("*",)), key=lambda store: (store.name != hint, store.name))


def cid_of(file: File) -> str:
    return f"{file.stem}{_SEPARATOR}{file.store}"
