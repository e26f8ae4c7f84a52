"""What is there: finding by mark, listing by Director, and deleting only what is still what it was."""

from __future__ import annotations

from coterie.cpi.contract import (
    CloudObject,
    Expected,
    Kind,
    Mark,
    NotSupported,
    SurveyPage,
)
from coterie.cpi.drivers.vsphere.disk_files import Shelf
from coterie.cpi.drivers.vsphere.listing import VM, Listing, by_mark
from coterie.cpi.drivers.vsphere.machines import Machines
from coterie.cpi.drivers.vsphere.marking import instance_uuid
from coterie.cpi.drivers.vsphere.refusals import cloud_call
from coterie.cpi.drivers.vsphere.stemcells import Stemcells
from coterie.cpi.kit.checks import require_kind, require_same


class Objects(Listing, Machines, Stemcells):
    @cloud_call
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        require_kind(kind)
        if kind in ("vm", "image"):
            return self._machine_of(kind, instance_uuid(mark), mark.director)
        if kind in ("disk", "snapshot"):
            return by_mark(self.files(kind, mark.director), mark)
        if kind == "server_group":
            return self._found_group(mark.group_cid, mark.director)
        return None

    @cloud_call
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        """One page: the folders of a Director are the filter, and the vCenter lists them whole, if they are there."""
        require_kind(kind)
        before = self.reader.calls
        if kind in ("vm", "image"):
            found = self.machines(kind, director_uuid)
        elif kind in ("disk", "snapshot"):
            found = self.files(kind, director_uuid)
        elif kind == "server_group":
            found = self.groups(director_uuid)
        else:
            return SurveyPage((), None, complete=True, calls=0)
        complete = self.in_place(kind, director_uuid)
        return SurveyPage(tuple(found), None, complete=complete, calls=max(1, self.reader.calls - before))

    @cloud_call
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        require_kind(kind)
        if kind == "network":
            raise NotSupported("networks are listed, never deleted as objects", remedy="ask the administrator")
        found = self._present(kind, cid)
        if found is None:
            return
        require_same(found, expected)
        {
            "vm": self.delete_vm,
            "image": self.delete_stemcell,
            "disk": self.delete_disk,
            "snapshot": self.delete_snapshot,
            "server_group": self.delete_server_group,
        }[kind](cid)

    def _present(self, kind: Kind, cid: str) -> CloudObject | None:
        director = self.runtime.director_uuid
        if kind in ("vm", "image"):
            return self._machine_of(kind, cid, director)
        if kind == "server_group":
            return self._found_group(cid, director)
        if kind not in ("disk", "snapshot"):
            return None
        shelf: Shelf = "disks" if kind == "disk" else "snapshots"
        file = self._by_cid(shelf, cid)
        listed = self.files(kind, director) if file else []
        return next((one for one in listed if file and one.name == file.stem), None)

    def _machine_of(self, kind: Kind, cid: str, director_uuid: str) -> CloudObject | None:
        ref = self.machine(cid)
        if ref is None:
            return None
        row = self.reader.one(ref, *VM)
        if bool(row.get("config.template")) != (kind == "image"):
            return None
        return self.machine_objects(kind, [row], director_uuid)[0]

    def _found_group(self, cid: str, director_uuid: str) -> CloudObject | None:
        holder = self.holder(cid, director_uuid, whole=False)
        return self.group_object(holder, self.views(), director_uuid) if holder and holder.ref else None
