"""The object table of Incus: for each kind how it is listed by its mark, and how a row reads as an object. Incus gives
whole lists, from its own database: what is on a silent member is in them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coterie.cpi.contract import CloudObject, Kind, Mark, read_keep_words, read_name
from coterie.cpi.drivers.incus import stemcells
from coterie.cpi.drivers.incus.client import Client, Row
from coterie.cpi.drivers.incus.disks import Disks, cid_of, is_at_home, users
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.marks import (
    UNREAD,
    describe,
    fits,
    mark_of,
    moment,
    of_director,
    of_mark,
    snapshot_mark,
    tags_of,
    vm_mark,
)
from coterie.cpi.drivers.incus.server_groups import Groups
from coterie.cpi.drivers.incus.stemcells import Stemcells
from coterie.cpi.kit.marking import DIRECTOR
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.ids import director_prefix
from coterie.slotted import dataclass, replace

# Error: its member is silent, so that nothing is known of it
_STATES: Mapping[str, str | None] = {
    **dict.fromkeys(("Running", "Ready"), "running"),
    **dict.fromkeys(("Stopped", "Frozen"), "stopped"),
    "Error": None,
}
_HOLDERS = "_holders"
_FILTERS_ALL = "api_filtering_extended"  # the extension of the API by which the lists of all kinds can be filtered


@dataclass(frozen=True, slots=True)
class Objects:
    client: Client
    groups: Groups
    machines: Machines
    disks: Disks
    stemcells: Stemcells

    def table(self) -> ObjectTable:
        groups, security = self.groups, self.groups.security
        kinds: dict[Kind, ObjectKind[Row]] = {
            "vm": self._vms(),
            "disk": self._kind(self._volumes, self.disks.read, _describe_disk, lambda cid, _: self.disks.delete(cid)),
            "snapshot": self._snapshots(),
            "image": self._images(),
            "server_group": self._kind(
                self._server_groups,
                groups.profiles.read_any,
                lambda row, _: describe("server_group", str(row["name"]), row, in_use_by=users(row), state="live"),
                lambda cid, _: groups.delete(cid),
            ),
            "security_group": self._kind(
                lambda wanted: self._add_holders(self._filtered("list network ACLs", "/network-acls", wanted)),
                self._read_security_group,
                _describe_security_group,
                lambda cid, _: security.delete(cid),
            ),
            "network": ObjectKind(
                search=lambda _: (),
                page=lambda director, cursor: RowPage(self._networks()),
                read=lambda cid, director: self._named("/networks", cid),
                describe=self._describe_network,
                marking="none",
                filtered=False,
            ),
        }
        client = self.client
        return ObjectTable(client.director_uuid, kinds, client.permit.limit, client.settings.keep)

    def _kind(
        self,
        list_rows: Callable[[Mapping[str, str]], Iterable[Row]],
        read: Callable[[str], Row | None],
        describe_row: Callable[[Row, str], CloudObject],
        delete: Callable[[str, Row], None],
    ) -> ObjectKind[Row]:
        """A kind with the mark in its config."""

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            rows = list(list_rows(of_director(director_uuid)))
            ours = [row for row in rows if tags_of(row).get(DIRECTOR) == director_uuid]
            return RowPage(ours, None, complete=len(ours) == len(rows))

        return ObjectKind(
            search=lambda mark: [row for row in list_rows(of_mark(mark)) if mark_of(row) == mark],
            page=page,
            read=lambda cid, _: read(cid),
            describe=describe_row,
            delete=delete,
            owner=lambda row: tags_of(row).get(DIRECTOR),
        )

    def _server_groups(self, wanted: Mapping[str, str]) -> list[Row]:
        """Profiles, and of what an interrupted call left, placement groups of LXD that have none."""
        rows = self._filtered("list profiles", "/profiles", wanted)
        names = {row["name"] for row in rows}
        own = self.groups.profiles.placement_groups.rows()
        return [*rows, *(row for row in own if row["name"] not in names and fits(row, wanted))]

    def _filtered(self, what: str, path: str, wanted: Mapping[str, str]) -> list[Row]:
        """LXD filters neither profiles nor ACLs: its lists are whole, and filtered here."""
        if self.groups.profiles.members.offers(_FILTERS_ALL):
            return self.client.rows(what, path, wanted)
        return [row for row in self.client.rows(what, path) if fits(row, wanted)]

    def _vms(self) -> ObjectKind[Row]:
        """Incus's filter knows nothing of VMs on silent members, of which it tells names only: these are listed by
        name, and the page then proves no absence."""

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            rows = self.client.rows("list instances", "/instances", of_director(director_uuid))
            ours = [row for row in rows if tags_of(row).get(DIRECTOR) == director_uuid]
            silent = self.client.rows("list silent instances", "/instances", {"status": "Error"})
            unread = [{**row, **UNREAD} for row in silent if not row.get("config")]
            ours += [row for row in unread if vm_mark(row, director_uuid)]
            return RowPage(ours, None, complete=len(ours) == len(rows) + len(unread) and not unread)

        def find(mark: Mark) -> list[Row]:
            row = self.machines.read(mark.name())
            return [row] if row and vm_mark(row, mark.director) == mark else []

        def owner(row: Row) -> str | None:
            named = read_name(str(row["name"]))
            return tags_of(row).get(DIRECTOR) or (named.owner(self.client.director_uuid) if named else None)

        return ObjectKind(
            search=find,
            page=page,
            read=lambda cid, _: self.machines.read(cid),
            describe=_describe_vm,
            delete=lambda cid, _: self.machines.delete(cid),
            owner=owner,
        )

    def _volumes(self, wanted: Mapping[str, str]) -> list[Row]:
        """A copy that others made on another member under the name of ours would count as ours."""
        rows = [row for pool in self.disks.pools() for row in self.disks.rows(pool, wanted)]
        at_home = {cid_of(row) for row in rows if is_at_home(row)}
        return [row for row in rows if is_at_home(row) or cid_of(row) not in at_home]

    def _all_snapshots(self, director_uuid: str) -> list[Row]:
        """By their names; a disk's own mark, which its snapshots repeat, is none of theirs."""
        rows = [row for pool in self.disks.pools() for row in self.disks.all_rows(pool)]
        prefix = f"cot-{director_prefix(director_uuid)}-"
        return [row for row in rows if "/" in row["name"] and row["name"].rpartition("/")[2].startswith(prefix)]

    def _snapshots(self) -> ObjectKind[Row]:
        def find(mark: Mark) -> list[Row]:
            return [one for one in self._all_snapshots(mark.director) if one["name"].endswith(f"/{mark.name()}")]

        def read(cid: str, director_uuid: str) -> Row | None:
            disk, _, name = cid.rpartition("/")
            pool, _, volume = disk.partition(":")
            rows = self.disks.all_rows(pool) if self.disks.read(disk) else []
            return next((row for row in rows if row["name"] == f"{volume}/{name}"), None)

        return ObjectKind(
            search=find,
            page=lambda director, cursor: RowPage(self._all_snapshots(director)),
            read=read,
            describe=_describe_snapshot,
            delete=lambda cid, _: self.disks.delete_snapshot(cid),
            marking="name",
            filtered=False,
        )

    def _images(self) -> ObjectKind[Row]:
        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            rows = self.client.rows("list images", "/images", stemcells.of_director(director_uuid))
            ours = [row for row in rows if stemcells.image_tags(row).get(DIRECTOR) == director_uuid]
            return RowPage(ours, None, complete=len(ours) == len(rows))

        def find(mark: Mark) -> list[Row]:
            row = self.stemcells.find(mark)
            return [row] if row else []

        return ObjectKind(
            search=find,
            page=page,
            read=lambda cid, _: self.stemcells.read(cid),
            describe=self._describe_image,
            delete=lambda cid, _: self.stemcells.delete(cid),
        )

    def _describe_image(self, row: Row, director_uuid: str) -> CloudObject:
        """Deleting an image hurts no instance; those that were made from it are shown as its users all the same."""
        cid, properties = str(row["fingerprint"]), stemcells.image_tags(row)
        made = self.client.rows("list users of an image", "/instances", {"config.volatile.base_image": cid})
        shared = ("everyone",) if row.get("public") else ()
        tags = {**properties, **read_keep_words(properties.get("description", "").split())}
        return CloudObject(
            "image",
            cid,
            str(properties.get("name") or row.get("filename") or ""),
            moment(row.get("uploaded_at")),
            mark=stemcells.mark_of_image(row),
            in_use_by=(*(str(one["name"]) for one in made), *shared),
            tags=tags,
        )

    def _read_security_group(self, cid: str) -> Row | None:
        row = self._named("/network-acls", cid)
        return self._add_holders([row])[0] if row else None

    def _add_holders(self, rows: list[Row]) -> list[Row]:
        """The server groups that have each of these ACLs."""
        holders = self.groups.records.holders() if rows else {}
        return [{**row, _HOLDERS: holders.get(str(row["name"]), ())} for row in rows]

    def _networks(self) -> list[Row]:
        rows = self.client.rows("list networks", "/networks")
        return [row for row in rows if row.get("managed")]

    def _describe_network(self, row: Row, director_uuid: str) -> CloudObject:
        used = tuple(str(one).partition("?")[0].rpartition("/")[2] for one in row.get("used_by") or ())
        return CloudObject("network", str(row["name"]), str(row["name"]), in_use_by=used, tags=tags_of(row))

    def _named(self, path: str, cid: str) -> Row | None:
        found: Row | None = self.client.ask(f"read {cid}", f"{path}/{cid}") if cid and "/" not in cid else None
        return found


def _describe_vm(row: Row, director_uuid: str) -> CloudObject:
    state = _STATES.get(str(row.get("status")), "building")
    found = describe("vm", str(row["name"]), row, in_use_by=(), host=row.get("location"), state=state)
    return replace(found, mark=vm_mark(row, director_uuid))


def _describe_disk(row: Row, director_uuid: str) -> CloudObject:
    state = "attached" if users(row) else "detached"
    host = row.get("location") if row.get("location") != "none" else None
    return describe("disk", cid_of(row), row, in_use_by=users(row), host=host, state=state)


def _describe_security_group(row: Row, director_uuid: str) -> CloudObject:
    used = [str(one).partition("?")[0].rpartition("/")[2] for one in row.get("used_by") or ()]
    return describe("security_group", str(row["name"]), row, in_use_by=(*row[_HOLDERS], *used))


def _describe_snapshot(row: Row, director_uuid: str) -> CloudObject:
    """People write on its description; its config is its disk's."""
    name = str(row["name"]).rpartition("/")[2]
    tags = read_keep_words(str(row.get("description") or "").split())
    return CloudObject(
        "snapshot",
        f"{row['pool']}:{row['name']}",
        name,
        moment(row.get("created_at")),
        mark=snapshot_mark(name, director_uuid),
        in_use_by=(),
        tags=tags,
    )
