"""What is there: found by mark, surveyed page by page, and deleted only if it is still what it was."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CloudObject, CpiError, Expected, Kind, Mark, NotSupported, SurveyPage
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.disk_changes import DiskChanges
from coterie.cpi.drivers.cloudstack.groups import Groups
from coterie.cpi.drivers.cloudstack.kinds import LISTINGS, created_at, is_gone, state_of, users_of
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, group_mark_of, group_prefix, mark_of, name_prefix, tags_of
from coterie.cpi.drivers.cloudstack.refusals import cloud_call
from coterie.cpi.drivers.cloudstack.stemcells import Stemcells
from coterie.cpi.kit.checks import require_same

_INTENT = "coterie-intent"


class Objects(DiskChanges, Stemcells, Groups):
    @cloud_call
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        listing = LISTINGS.get(kind)
        if listing is None:
            return None
        name = mark.group_cid if kind == "server_group" else mark.name()
        by_name = {listing.by_name: name} if listing.by_name else {}
        rows = [*self.api.every(listing.command, **listing.more, **by_name), *self._bare(kind, mark.director, (), name)]
        for row in rows:
            found = self._object(kind, row, mark.director)
            if found.mark == mark and not is_gone(row) and _whole_name(kind, row, name):
                return found
        return None

    @cloud_call
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        listing = LISTINGS.get(kind)
        if listing is None:
            return SurveyPage((), None, True, 0)
        number, _, before = (cursor or "1:").partition(":")
        prefix = group_prefix(director_uuid) if kind == "server_group" else name_prefix(director_uuid)
        keyword = {"keyword": prefix} if listing.keyword else {}
        calls = self.api.calls
        rows, total = self.api.page(listing.command, int(number), **listing.more, **keyword)
        if number == "1":
            rows = [*rows, *self._bare(kind, director_uuid, rows)]
        # a filter that was ignored, or a list that changed its length between two pages, proves nothing
        honest = not listing.keyword or all(prefix in str(row.get("name", "")) for row in rows)
        steady = not before or int(before) == total
        full = len(rows) >= self.settings.page_size
        objects = {
            found.cid: found for row in rows if not is_gone(row) for found in [self._object(kind, row, director_uuid)]
        }
        following = f"{int(number) + 1}:{total}" if full else None
        return SurveyPage(tuple(objects.values()), following, honest and steady, self.api.calls - calls)

    @cloud_call
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        if kind not in LISTINGS or kind == "network":
            raise NotSupported(f"objects of kind {kind} are listed, never deleted", remedy="leave it")
        row = self._row_of(kind, cid)
        if row is None or is_gone(row):
            return
        found = self._object(kind, row, expected.mark.director if expected.mark else self.runtime.director_uuid)
        require_same(found, expected)
        self._deleted_object(kind, cid, row)

    def _object(self, kind: Kind, row: Row, director_uuid: str) -> CloudObject:
        mark = self._mark_of(kind, row, director_uuid)
        return CloudObject(
            kind=kind,
            cid=str(row["name"] if kind in ("server_group", "keypair") else row["id"]),
            name=str(row.get("name") or row.get("ipaddress")),
            created_at=created_at(row),
            mark=mark,
            in_use_by=self._users(kind, row) if mark else users_of(kind, row),
            az=row.get("zonename"),
            state=state_of(kind, row),
            host=row.get("hostname") if kind == "vm" else None,
            tags=tags_of(row) if kind != "server_group" else None,
        )

    def _users(self, kind: Kind, row: Row) -> tuple[str, ...] | None:
        """Images and keys do not say it themselves, and a security group names its VMs only, while server groups
        without one may hold it too. Ours are few, so that a question about each costs little."""
        if kind == "security_group":
            return (*(users_of(kind, row) or ()), *self.guard_holders(str(row["id"])))
        asked = {"image": {"templateid": row.get("id")}, "keypair": {"keypair": row.get("name")}}.get(kind)
        if asked is None:
            return users_of(kind, row)
        return tuple(str(vm["id"]) for vm in self.api.every("listVirtualMachines", **asked) if not is_gone(vm))

    def _mark_of(self, kind: Kind, row: Row, director_uuid: str) -> Mark | None:
        if kind == "server_group":
            return group_mark_of(row, director_uuid)
        if kind == "security_group":
            words = str(row.get("description") or "").split()
            return mark_of(row, director_uuid, words[0]) if words else None
        if kind == "ip":
            tags = tags_of(row)
            ours = tags.get(DIRECTOR) == director_uuid and len(tags.get(_INTENT, "")) == 26
            return Mark(director_uuid, tags[_INTENT]) if ours else None
        return mark_of(row, director_uuid)

    def _bare(self, kind: Kind, director_uuid: str, listed: Sequence[Row], only: str | None = None) -> list[Row]:
        """Server groups without an affinity group: they never had a policy, or lost the group behind our back."""
        if kind != "server_group":
            return []
        seen = {row["name"] for row in listed}
        memos = [memo for cid, memo in self.memos().items() if cid not in seen and only in (None, cid)]
        ours = [memo for memo in memos if memo.cid.startswith(group_prefix(director_uuid))]
        return [self._bare_row(memo.cid, director_uuid) for memo in ours if not self.affinity_named(memo.cid)]

    def _bare_row(self, cid: str, director_uuid: str) -> Row:
        members = [row["id"] for row in self.tagged_members(cid)]
        return {"name": cid, "description": director_uuid, "virtualmachineIds": members}

    def _row_of(self, kind: Kind, cid: str) -> Row | None:
        if kind == "server_group":
            found = self.affinity_named(cid)
            return found or next(iter(self._bare(kind, self.runtime.director_uuid, (), cid)), None)
        if kind == "keypair":
            return next((row for row in self.api.every("listSSHKeyPairs", name=cid) if row["name"] == cid), None)
        return self.row(LISTINGS[kind].command, cid, **LISTINGS[kind].more)

    def _deleted_object(self, kind: Kind, cid: str, row: Row) -> None:
        if kind == "vm":
            self.remove_vm(cid)
        elif kind == "disk":
            self.delete_disk(cid)
        elif kind == "snapshot":
            self.delete_snapshot(cid)
        elif kind == "image":
            self.delete_template(cid)
        elif kind == "server_group":
            self.delete_server_group(cid)
        elif kind == "security_group":
            self.delete_guard(cid)
        elif kind == "keypair":
            self.api.call("deleteSSHKeyPair", name=cid)
        elif row.get("virtualmachineid"):
            raise CpiError(
                f"address {row['ipaddress']} leads to VM {row['virtualmachineid']}", remedy="delete it first"
            )
        else:
            self.api.run("disassociateIpAddress", id=cid)


def _whole_name(kind: Kind, row: Row, name: str) -> bool:
    """A disk that came with a VM has the VM's mark and more in its name: it is not what the mark was made for."""
    return kind in ("vm", "security_group", "ip") or row.get("name") == name
