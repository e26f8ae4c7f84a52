"""The object table of this cloud: how objects of each kind are listed, described and deleted. Marks are in names, but
for server groups, security groups and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark, read_keep_words
from coterie.cpi.drivers.cloudstack import marks
from coterie.cpi.drivers.cloudstack.client import Client, Row, read_tags
from coterie.cpi.drivers.cloudstack.disks import Disks, attached_vms
from coterie.cpi.drivers.cloudstack.networks import PublicAddresses
from coterie.cpi.drivers.cloudstack.server_groups import Groups
from coterie.cpi.drivers.cloudstack.stemcells import Templates
from coterie.cpi.drivers.cloudstack.vms import CloudKeyPairs, Vms
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.slotted import dataclass, field, replace

_GONE = ("Destroyed", "Expunging", "Expunged", "Destroy")
_STATES = {"Running": "running", "Stopped": "stopped", "Error": "error", "Starting": "building", "Stopping": "stopped"}
Users = Callable[[Row], tuple[str, ...] | None]


def object_table(
    client: Client,
    vms: Vms,
    disks: Disks,
    templates: Templates,
    groups: Groups,
    addresses: PublicAddresses,
    key_pairs: CloudKeyPairs,
) -> ObjectTable:
    def list_vms(**filters: Any) -> tuple[str, ...]:
        rows = client.list_all("listVirtualMachines", **filters)
        return tuple(str(row["id"]) for row in rows if not _is_gone(row))

    def list_holders(row: Row) -> tuple[str, ...]:
        """CloudStack names the VMs only, while server groups without a VM may have it too."""
        return (*_vms_of_security_group(row), *groups.security.holders().get(str(row["id"]), ()))

    listings = [
        Listing("vm", client, "listVirtualMachines", lambda cid, _: vms.delete(cid), _none, is_exact=False),
        Listing("disk", client, "listVolumes", lambda cid, _: disks.delete(cid), attached_vms, {"type": "DATADISK"}),
        Listing("snapshot", client, "listSnapshots", lambda cid, _: disks.delete_snapshot(cid), _none),
        Listing(
            "image",
            client,
            "listTemplates",
            lambda cid, _: templates.delete(cid),
            _unknown,
            {"templatefilter": "self"},
            users_of_ours=lambda row: (*list_vms(templateid=row["id"]), *_sharers(client, row)),
        ),
        Listing("network", client, "listNetworks", None, _unknown, by_name="keyword"),
        Listing(
            "security_group",
            client,
            "listSecurityGroups",
            lambda cid, _: groups.security.delete(cid),
            _vms_of_security_group,
            by_name=None,
            is_exact=False,
            mark=marks.security_group_mark_of,
            users_of_ours=list_holders,
        ),
        Listing(
            "ip",
            client,
            "listPublicIpAddresses",
            addresses.delete,
            attached_vms,
            by_name=None,
            is_exact=False,
            mark=marks.address_mark_of,
        ),
        Listing(
            "keypair",
            client,
            "listSSHKeyPairs",
            lambda cid, _: key_pairs.delete(cid),
            _unknown,
            read_named=key_pairs.read,
            users_of_ours=lambda row: list_vms(keypair=row["name"]),
        ),
    ]
    kinds = {listing.kind: listing.object_kind() for listing in listings}
    kinds["server_group"] = _server_groups(client, groups)
    return ObjectTable(client.director_uuid, kinds, client.permit.limit, client.settings.keep)


@dataclass(frozen=True, slots=True)
class Listing:
    """`by_name`: the parameter that finds one name; None: CloudStack filters nothing. `is_exact`: an object has exactly
    the name of its mark, unlike the disk that came with a VM, which has the VM's mark and more. `users`: the ids of
    what uses a row; `users_of_ours`: the same where it costs a call, which is made for objects of ours only."""

    kind: Kind
    client: Client
    command: str
    delete: Callable[[str, Row], None] | None
    users: Users
    more: Mapping[str, Any] = field(default_factory=dict)
    by_name: str | None = "name"
    is_exact: bool = True
    mark: Callable[[Row, str], Mark | None] = marks.mark_of
    read_named: Callable[[str], Row | None] | None = None
    users_of_ours: Users | None = None

    def object_kind(self) -> ObjectKind[Row]:
        return ObjectKind(
            search=lambda mark: self.search(mark.name()),
            page=lambda director_uuid, cursor: self.page(marks.name_prefix(director_uuid), cursor),
            read=lambda cid, _: self.read(cid),
            describe=self.describe,
            delete=self.delete,
            owner=lambda row: marks.owner_of(row, self.client.director_uuid),
            is_gone=_is_gone,
            marking="later" if self.kind == "ip" else "name",
            filtered=self.by_name is not None,
        )

    def search(self, name: str) -> list[Row]:
        by_name = {self.by_name: name} if self.by_name else {}
        rows = self.client.list_all(self.command, **self.more, **by_name)
        return [row for row in rows if not self.is_exact or row.get("name") == name]

    def page(self, prefix: str, cursor: str | None) -> RowPage[Row]:
        """The cursor is `<number>:<length of the list>`. A filter that was ignored, or a list that changed its length
        between two pages, proves no absence."""
        number, _, before = (cursor or "1:").partition(":")
        keyword = {"keyword": prefix} if self.by_name else {}
        rows, total = self.client.page(self.command, int(number), **self.more, **keyword)
        is_full = len(rows) >= self.client.settings.page_size
        is_filtered = not self.by_name or all(prefix in str(row.get("name", "")) for row in rows)
        is_steady = not before or int(before) == total
        unique = {self._cid(row): row for row in rows}
        following = f"{int(number) + 1}:{total}" if is_full else None
        return RowPage(list(unique.values()), following, is_filtered and is_steady)

    def read(self, cid: str) -> Row | None:
        return self.read_named(cid) if self.read_named else self.client.read(self.command, cid, **self.more)

    def describe(self, row: Row, director_uuid: str) -> CloudObject:
        mark = self.mark(row, director_uuid)
        return CloudObject(
            kind=self.kind,
            cid=self._cid(row),
            name=str(row.get("name") or row.get("ipaddress")),
            created_at=_created_at(row),
            mark=mark,
            in_use_by=(self.users_of_ours if mark and self.users_of_ours else self.users)(row),
            az=row.get("zonename"),
            state=_STATES.get(str(row.get("state"))) if self.kind == "vm" else row.get("state") or row.get("status"),
            host=row.get("hostname") if self.kind == "vm" else None,
            tags={**read_keep_words(str(row.get("displaytext") or "").split()), **read_tags(row)},
        )

    def _cid(self, row: Row) -> str:
        return str(row["name"] if self.kind in ("server_group", "keypair") else row["id"])


def _server_groups(client: Client, groups: Groups) -> ObjectKind[Row]:
    """Affinity groups, and server groups that have a record only."""

    def list_recorded_only(director_uuid: str, cid: str | None = None) -> list[Row]:
        def list_present() -> list[str]:
            found = client.list_all("listAffinityGroups", keyword=marks.group_prefix(director_uuid))
            return [str(row["name"]) for row in (listing.search(cid) if cid else found)]

        return [
            {"name": one.cid, "description": director_uuid, "virtualmachineIds": list(one.members)}
            for one in groups.server.list_recorded_only(director_uuid, list_present, cid)
        ]

    def search(cid: str, director_uuid: str) -> list[Row]:
        return listing.search(cid) or list_recorded_only(director_uuid, cid)

    def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
        found = listing.page(marks.group_prefix(director_uuid), cursor)
        more = [] if cursor else list_recorded_only(director_uuid)
        return replace(found, rows=[*found.rows, *more])

    listing = Listing(
        "server_group",
        client,
        "listAffinityGroups",
        lambda cid, _: groups.server.delete(cid),
        lambda row: tuple(row.get("virtualmachineIds") or ()),
        mark=marks.group_mark_of,
    )
    return replace(
        listing.object_kind(),
        search=lambda mark: search(mark.group_cid, mark.director),
        page=page,
        read=lambda cid, director_uuid: next(iter(search(cid, director_uuid)), None),
    )


def _is_gone(row: Row) -> bool:
    """What is on its way out is no object any more."""
    return row.get("state") in _GONE


def _created_at(row: Row) -> float | None:
    text = row.get("created") or row.get("allocated")
    return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S%z").timestamp() if text else None


def _none(row: Row) -> tuple[str, ...]:
    return ()


def _unknown(row: Row) -> None:
    """CloudStack does not show it."""


def _sharers(client: Client, row: Row) -> tuple[str, ...]:
    """Other accounts that may use a template; their VMs are not shown."""
    if row.get("ispublic") or row.get("isfeatured"):
        return ("other accounts, since it is public",)
    allowed = client.call("listTemplatePermissions", id=row["id"]).get("templatepermission") or {}
    accounts = (f"account {one}" for one in allowed.get("account") or ())
    return (*accounts, *(f"project {one}" for one in allowed.get("projectids") or ()))


def _vms_of_security_group(row: Row) -> tuple[str, ...]:
    return tuple(row.get("virtualmachineids") or ())
