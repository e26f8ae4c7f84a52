"""What is there: finding by mark, listing by Director, and deleting only what is still what it was."""

from __future__ import annotations

from coterie.cpi.contract import (
    KINDS,
    Changed,
    CloudObject,
    Expected,
    InvalidCall,
    Kind,
    Mark,
    NotSupported,
    SurveyPage,
)
from coterie.cpi.vsphere.disk_files import Shelf
from coterie.cpi.vsphere.listing import VM, Listing, by_mark
from coterie.cpi.vsphere.machines import Machines
from coterie.cpi.vsphere.marking import instance_uuid
from coterie.cpi.vsphere.refusals import cloud_call
from coterie.cpi.vsphere.stemcells import Stemcells


class Objects(Listing, Machines, Stemcells):
    @cloud_call
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        _known(kind)
        if kind in ("vm", "image"):
            return self._machine_of(kind, instance_uuid(mark), mark.director)
        if kind in ("disk", "snapshot"):
            return by_mark(self.files(kind, mark.director), mark)
        if kind == "server_group":
            return self._found_group(mark.group_cid, mark.director)
        return None

    @cloud_call
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        """One page: the folders of a Director are the filter, and the vCenter lists them whole."""
        _known(kind)
        before = self.reader.calls
        if kind in ("vm", "image"):
            found = self.machines(kind, director_uuid)
        elif kind in ("disk", "snapshot"):
            found = self.files(kind, director_uuid)
        elif kind == "server_group":
            found = self.groups(director_uuid)
        else:
            return SurveyPage((), None, complete=True, calls=0)
        return SurveyPage(tuple(found), None, complete=True, calls=max(1, self.reader.calls - before))

    @cloud_call
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        _known(kind)
        if kind == "network":
            raise NotSupported("networks are listed, never deleted as objects", remedy="ask the administrator")
        found = self._present(kind, cid)
        if found is None:
            return
        _compare(found, expected)
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


def _known(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidCall(f"there is no kind {kind!r}", remedy=f"use one of: {', '.join(KINDS)}")


def _compare(found: CloudObject, expected: Expected) -> None:
    for what, has, wanted in (
        ("mark", found.mark, expected.mark),
        ("creation time", found.created_at, expected.created_at),
        ("etag", found.etag, expected.etag),
    ):
        if has != wanted and (wanted is not None or what == "mark"):
            raise Changed(
                f"{found.kind} {found.cid} is not the one that was expected",
                why=f"its {what} differs",
                remedy="list the objects again and decide anew",
            )
