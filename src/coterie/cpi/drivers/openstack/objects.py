"""The object table of this cloud: for each kind how to find, list, read, describe and delete it. `find`, `survey`,
`delete_object` and `vm_owner` follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from coterie.cpi.contract import Changed, CloudObject, CpiError, Kind, Mark
from coterie.cpi.drivers.openstack.client import Client, Row
from coterie.cpi.drivers.openstack.disks import disk_users
from coterie.cpi.drivers.openstack.machines import NovaKeyPairs, Servers
from coterie.cpi.drivers.openstack.rows import (
    LISTINGS,
    PART_KINDS,
    Rows,
    created_at,
    director_tag,
    host_of,
    ids,
    is_gone,
    owner_of,
    written_on,
)
from coterie.cpi.drivers.openstack.server_groups import Groups
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.slotted import dataclass

Delete = Callable[[str], None]
_RECORDED = "bare"  # the page after the last of Nova's: server groups that exist as a record only
_NAMED: tuple[Kind, ...] = ("server_group", "keypair")
_STATES = {"ACTIVE": "running", "SHUTOFF": "stopped", "ERROR": "error", "BUILD": "building", "REBOOT": "running"}


@dataclass(frozen=True, slots=True)
class Objects:
    """`deletes`: what deletes an object of a kind, by its CID; a kind without one is listed, never deleted."""

    client: Client
    rows: Rows
    servers: Servers
    groups: Groups
    nova_keys: NovaKeyPairs
    deletes: Mapping[Kind, Delete]

    def table(self) -> ObjectTable:
        kinds = {kind: self._kind(kind) for kind in LISTINGS}
        return ObjectTable(self.client.director_uuid, kinds, self.client.permit.limit, self.client.settings.keep)

    def _kind(self, kind: Kind) -> ObjectKind[Row]:
        return ObjectKind(
            search=partial(self._search, kind),
            page=partial(self._page, kind),
            read=partial(self._read, kind),
            describe=partial(self._describe, kind),
            delete=partial(self._delete, kind) if kind in self.deletes else None,
            owner=lambda row: owner_of(row.get("tags") or (), str(row.get("name")), self.client.director_uuid),
            is_gone=is_gone,
            marking="name" if kind in _NAMED else "atomic",
            filtered=bool(LISTINGS[kind].by_director("x")),
        )

    def _search(self, kind: Kind, mark: Mark) -> list[Row]:
        rows = self.rows.list_live(kind, mark)
        if not rows and kind == "server_group":
            return self._list_recorded(mark.director, mark.group_cid)
        if not rows and kind == "vm":
            self.servers.require_listed(self.rows.list_marked("port", mark))
        return rows

    def _page(self, kind: Kind, director_uuid: str, cursor: str | None) -> RowPage[Row]:
        if cursor == _RECORDED:
            return RowPage(self._list_recorded(director_uuid))
        by_director = LISTINGS[kind].by_director(director_uuid)
        # Neutron shows administrators what all projects have
        within = {"project_id": self.client.project} if kind in ("ip", "security_group") else {}
        rows, following = self.rows.page(kind, cursor, **by_director, **within)
        if kind == "server_group" and following is None:
            following = _RECORDED
        rows = self.rows.without_copies(kind, rows)
        # a filter that was ignored proves nothing
        complete = not by_director or all(_names_director(kind, row, director_uuid) for row in rows)
        return RowPage(rows, following, complete)

    def _read(self, kind: Kind, cid: str, director_uuid: str) -> Row | None:
        if kind == "keypair":
            return next((row for row in self.rows.list_all(kind) if row["name"] == cid), None)
        if kind != "server_group":
            return self.rows.read(kind, cid)
        present = [row for row in self.rows.list_all(kind) if row["name"] == cid]
        named = sorted(self.rows.without_copies(kind, present), key=lambda row: not row.get("members"))
        return next(iter(named or self._list_recorded(director_uuid, cid)), None) or self.rows.read(kind, cid)

    def _describe(self, kind: Kind, row: Row, director_uuid: str) -> CloudObject:
        mark = LISTINGS[kind].mark(row, director_uuid)
        return CloudObject(
            kind=kind,
            cid=str(row["name"] if kind in _NAMED and mark else row["id"]),
            name=str(row.get("name") or row.get("floating_ip_address") or row["id"]),
            created_at=created_at(row),
            mark=mark,
            in_use_by=self._users(kind, row, mark),
            az=row.get("OS-EXT-AZ:availability_zone") or row.get("availability_zone"),
            state=_STATES.get(str(row.get("status"))) if kind == "vm" else row.get("status"),
            host=host_of(row) if kind == "vm" else None,
            tags=written_on(kind, row),
        )

    def _users(self, kind: Kind, row: Row, mark: Mark | None) -> tuple[str, ...] | None:
        """As far as the cloud says. Images, keys and security groups do not say it themselves; ours are few, so that a
        question about each costs little."""
        shown: Mapping[str, Callable[[], tuple[str, ...]]] = {
            "disk": lambda: disk_users(row),
            "server_group": lambda: tuple(str(one) for one in row.get("members") or ()),
            "port": lambda: (str(row["device_id"]),) if row.get("device_id") else (),
            "ip": lambda: (str(row["port_id"]),) if row.get("port_id") else (),
        }
        looked_up: Mapping[str, Callable[[], tuple[str, ...]]] = {
            "image": lambda: self._image_users(row),
            "keypair": lambda: self.nova_keys.list_users(str(row["name"])),
            "security_group": lambda: (
                *ids(self.rows.list_all("port", security_groups=row["id"])),
                *self.groups.records.holders().get(str(row["id"]), ()),
            ),
            "vm": lambda: (),
            "snapshot": lambda: (),
        }
        look = shown.get(kind) or (looked_up.get(kind) if mark else None)
        return look() if look else None

    def _image_users(self, row: Row) -> tuple[str, ...]:
        """Servers of this project, also those that boot from a volume with the image in it; and other projects, whose
        servers are not shown: all of them where it is public, those that are its members where it is shared."""
        booted = ids(one for one in self.rows.list_all("vm", image=row["id"]) if not is_gone(one))
        volumes = [
            user
            for volume in self.rows.list_all("disk", bootable="true")
            if (volume.get("volume_image_metadata") or {}).get("image_id") == row["id"]
            for user in disk_users(volume)
        ]
        return (*booted, *dict.fromkeys(volumes), *self._sharers(row))

    def _sharers(self, row: Row) -> tuple[str, ...]:
        visibility = row.get("visibility")
        if visibility in ("public", "community"):
            return (f"other projects, since it is {visibility}",)
        if visibility != "shared":
            return ()
        what, path = f"list the members of image {row['id']}", f"/images/{row['id']}/members"
        members = (self.client.look(what, "image", path) or {}).get("members") or ()
        return tuple(f"project {one['member_id']}" for one in members)

    def _delete(self, kind: Kind, cid: str, row: Row) -> None:
        """A port or an address that is in use is not taken from under its user."""
        used = self._users(kind, row, None) if kind in ("port", "ip") else ()
        if used:
            raise CpiError(f"{kind} {cid} is used by {used[0]}", remedy="delete that first")
        mark = LISTINGS[kind].mark(row, self.client.director_uuid)
        if mark and kind in PART_KINDS and not self.rows.is_part(kind, row, mark):
            raise Changed(f"{kind} {cid} bears a copied mark", remedy="leave it: it was not created by this Director")
        self.deletes[kind](cid)

    def _list_recorded(self, director_uuid: str, only: str | None = None) -> list[Row]:
        """Server groups without a group of Nova's, as rows."""
        found = self.groups.server.list_recorded_only(
            director_uuid, lambda: [str(row["name"]) for row in self.rows.list_all("server_group")], only
        )
        return [{"id": one.cid, "name": one.cid, "members": list(one.members)} for one in found]


def _names_director(kind: Kind, row: Row, director_uuid: str) -> bool:
    if kind in ("network", "port"):
        return bool(row.get("description") == director_tag(director_uuid))
    if kind in ("disk", "snapshot"):
        return director_uuid in (row.get("metadata") or {}).values()
    return director_tag(director_uuid) in (row.get("tags") or ())
