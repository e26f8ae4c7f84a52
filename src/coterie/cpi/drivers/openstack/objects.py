"""What is there: found by mark, surveyed page by page, and deleted only if it is still what it was."""

from __future__ import annotations

from coterie.cpi.contract import CloudObject, CpiError, Expected, Kind, Mark, NotSupported, SurveyPage
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.disk_changes import DiskChanges
from coterie.cpi.drivers.openstack.disks import users_of
from coterie.cpi.drivers.openstack.groups import Groups
from coterie.cpi.drivers.openstack.kinds import FILTERED, LISTINGS, created_at, host_of, is_gone, state_of
from coterie.cpi.drivers.openstack.marking import director_tag, mark_of_name
from coterie.cpi.drivers.openstack.refusals import cloud_call
from coterie.cpi.drivers.openstack.stemcells import Stemcells
from coterie.cpi.kit.checks import require_kind, require_same

_BARE = "bare"  # the page after the last of Nova's: server groups that have no policy, so that Nova has none


class Objects(DiskChanges, Stemcells, Groups):
    @cloud_call
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        require_kind(kind)
        if kind not in LISTINGS:
            return None
        rows = [row for row in self.marked(kind, mark) if not is_gone(row)]
        if not rows and kind == "server_group":
            rows = [row for row in self._bare(mark.director) if row["name"] == mark.group_cid]
        if not rows and kind == "vm":
            self.require_unused(self.marked("port", mark))
        return self._object(kind, rows[0], mark.director) if rows else None

    @cloud_call
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        require_kind(kind)
        if kind not in LISTINGS:
            return SurveyPage((), None, True, 0)
        calls, listing = self.api.calls, LISTINGS[kind]
        if cursor == _BARE:
            rows, following = self._bare(director_uuid), None
        else:
            rows, following = self.page(kind, cursor, **listing.by_director(director_uuid), **self._within(kind))
        if kind == "server_group" and cursor != _BARE and following is None:
            following = _BARE
        # a filter that was ignored proves nothing
        honest = kind not in FILTERED or all(_claimed(kind, row, director_uuid) for row in rows)
        objects = [self._object(kind, row, director_uuid) for row in rows if not is_gone(row)]
        return SurveyPage(tuple(objects), following, honest, self.api.calls - calls)

    @cloud_call
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        require_kind(kind)
        if kind not in LISTINGS or kind == "network":
            raise NotSupported(f"objects of kind {kind} are listed, never deleted", remedy="leave it")
        director = expected.mark.director if expected.mark else self.runtime.director_uuid
        row = self._row_of(kind, cid, director)
        if row is None or is_gone(row):
            return
        require_same(self._object(kind, row, director), expected)
        self._deleted_object(kind, cid, row)

    def _object(self, kind: Kind, row: Row, director_uuid: str) -> CloudObject:
        mark = LISTINGS[kind].mark(row, director_uuid)
        return CloudObject(
            kind=kind,
            cid=str(row["name"] if kind in ("server_group", "keypair") and mark else row["id"]),
            name=str(row.get("name") or row.get("floating_ip_address") or row["id"]),
            created_at=created_at(row),
            mark=mark,
            in_use_by=self._users(kind, row, mark),
            az=row.get("OS-EXT-AZ:availability_zone") or row.get("availability_zone"),
            state=state_of(kind, row),
            host=host_of(row) if kind == "vm" else None,
            tags=row.get("metadata") if kind in ("vm", "disk", "snapshot") else None,
        )

    def _within(self, kind: Kind) -> dict[str, str]:
        """Neutron shows administrators what all projects have."""
        return {"project_id": self.api.project} if kind in ("ip", "security_group") else {}

    def _users(self, kind: Kind, row: Row, mark: Mark | None) -> tuple[str, ...] | None:
        """As far as the cloud says. Images, keys and security groups do not say it themselves; ours are few, so that a
        question about each costs little."""
        if kind == "disk":
            return users_of(row)
        if kind == "server_group":
            return tuple(str(one) for one in row.get("members") or ())
        if kind == "port":
            return (str(row["device_id"]),) if row.get("device_id") else ()
        if kind == "ip":
            return (str(row["port_id"]),) if row.get("port_id") else ()
        if mark is None:
            return None
        if kind == "image":
            return tuple(str(one["id"]) for one in self.rows("vm", image=row["id"]) if not is_gone(one))
        if kind == "keypair":
            return self.key_users(str(row["name"]))
        if kind == "security_group":
            ports = [str(one["id"]) for one in self.rows("port", security_groups=row["id"])]
            return (*ports, *self.guard_holders(str(row["id"])))
        return () if kind in ("vm", "snapshot") else None

    def _row_of(self, kind: Kind, cid: str, director_uuid: str) -> Row | None:
        if kind == "server_group":
            bare = [row for row in self._bare(director_uuid) if row["name"] == cid]
            return next(iter([*self.groups_named(cid), *bare]), None) or self.row(kind, cid)
        if kind == "keypair":
            return next((row for row in self.rows("keypair") if row["name"] == cid), None)
        return self.row(kind, cid)

    def _bare(self, director_uuid: str) -> list[Row]:
        """Server groups without a group of Nova's: they never had a policy, or lost it behind our back."""
        memos = [memo for cid, memo in self.memos().items() if mark_of_name(cid, director_uuid)]
        if not memos:
            return []
        there = {str(row["name"]) for row in self.rows("server_group")}
        return [self._bare_row(memo.cid) for memo in memos if memo.cid not in there]

    def _bare_row(self, cid: str) -> Row:
        return {"id": cid, "name": cid, "members": [row["id"] for row in self.tagged_members(cid)]}

    def _deleted_object(self, kind: Kind, cid: str, row: Row) -> None:
        """A port or an address that is in use is not taken from under its user."""
        used = self._users(kind, row, None) if kind in ("port", "ip") else ()
        if used:
            raise CpiError(f"{kind} {cid} is used by {used[0]}", remedy="delete that first")
        deletions = {
            "vm": lambda: self.remove_vm(cid),
            "disk": lambda: self.delete_disk(cid),
            "snapshot": lambda: self.delete_snapshot(cid),
            "image": lambda: self.delete_image(cid),
            "server_group": lambda: self.delete_server_group(cid),
            "security_group": lambda: self.delete_guard(cid),
            "keypair": lambda: self.delete_keypair(cid),
            "port": lambda: self.unplug([row]),
            "ip": lambda: self.give_back(row),
        }
        deletions[kind]()


def _claimed(kind: Kind, row: Row, director_uuid: str) -> bool:
    if kind in ("network", "port"):
        return bool(row.get("description") == director_tag(director_uuid))
    if kind in ("disk", "snapshot"):
        return director_uuid in (row.get("metadata") or {}).values()
    return director_tag(director_uuid) in (row.get("tags") or ())
