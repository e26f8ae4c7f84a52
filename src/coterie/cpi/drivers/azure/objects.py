"""How each kind is found by its mark, listed, described and deleted. A mark gives the name, so finding is one request
that never lags; lists are those of the resource group, which lag and are not filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.azure.client import Client, Row, Type, is_a, is_same, name_of
from coterie.cpi.drivers.azure.disks import Disks, users
from coterie.cpi.drivers.azure.machines import EPHEMERAL, MOST_NICS, OS, Machines, state_of
from coterie.cpi.drivers.azure.security_groups import LABEL, labels_of, read_records
from coterie.cpi.drivers.azure.security_groups import users as users_of_rules
from coterie.cpi.drivers.azure.server_groups import Groups, scale_set_of
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.drivers.azure.tags import NAME, describe, mark_of, tag_of
from coterie.cpi.kit.group_records import holders_in
from coterie.cpi.kit.marking import DIRECTOR, GROUP
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage, described

TYPES: Mapping[Kind, Type] = {
    "vm": "VM",
    "disk": "disk",
    "snapshot": "snapshot",
    "image": "image",
    "server_group": "availability set",
    "security_group": "security group",
    "port": "NIC",
}


class Objects:
    def __init__(self, client: Client, groups: Groups, machines: Machines, disks: Disks, stemcells: Stemcells) -> None:
        self._client = client
        self._groups = groups
        self._machines = machines
        self._delete: Mapping[Kind, Callable[[str], None]] = {
            "vm": machines.delete,
            "disk": disks.delete,
            "snapshot": disks.delete_snapshot,
            "image": stemcells.delete,
            "server_group": groups.delete,
            "security_group": groups.security.delete,
            "port": machines.delete_nic,
        }
        self._users: Mapping[Kind, Callable[..., list[tuple[str, ...]]]] = {
            "vm": lambda rows: [()] * len(rows),
            "disk": lambda rows: [users(row) for row in rows],
            "snapshot": lambda rows: [()] * len(rows),
            "image": self._users_of_images,
            "server_group": self._members,
            "security_group": self._users_of_security_groups,
            "port": lambda rows: [_users_of_nic(row) for row in rows],
        }

    def table(self) -> ObjectTable:
        kinds = {kind: self._kind(kind) for kind in TYPES}
        return ObjectTable(self._client.director_uuid, kinds, self._client.permit.limit, self._client.settings.keep)

    def _kind(self, kind: Kind) -> ObjectKind[CloudObject]:
        return ObjectKind(
            lambda mark: self._describe(kind, self._search(kind, mark)),
            lambda director_uuid, cursor: self._page(kind, director_uuid, cursor),
            lambda cid, director_uuid: next(iter(self._describe(kind, self._read(kind, cid, director_uuid))), None),
            described,
            lambda cid, found: self._delete[kind](cid),
            owner=lambda found: {key.lower(): value for key, value in (found.tags or {}).items()}.get(DIRECTOR),
            filtered=False,
        )

    def _describe(self, kind: Kind, rows: list[Row], *listed: list[Row]) -> list[CloudObject]:
        """All rows of a page at once, since most users are known from lists only. `listed`: what was listed already."""
        used = self._users[kind](rows, *listed) if rows else []
        return [describe(kind, row, users, _state(kind, row, users)) for row, users in zip(rows, used, strict=True)]

    def _read(self, kind: Kind, cid: str, director_uuid: str) -> list[Row]:
        row = self._machines.read(cid) if kind == "vm" else self._client.get(TYPES[kind], cid)
        if row is None and kind == "server_group":
            row = self._client.get("scale set", cid) or next(self._recorded(director_uuid, cid), None)
        if row is None and kind == "security_group":
            label = self._client.get(LABEL, cid)
            row = label if label and tag_of(label, NAME) else None
        return [row] if row else []

    def _search(self, kind: Kind, mark: Mark) -> list[Row]:
        if kind == "security_group":  # its name follows from the manifest
            groups = list(self._client.list_type("security group"))
            rows = [*groups, *self._lone_labels(list(self._client.list_type(LABEL)), groups)]
            return [row for row in rows if mark_of(row) == mark]
        if kind == "port":  # the first may be gone where others are left
            names = [f"{mark.name()}-{number}" for number in range(MOST_NICS)]
        else:
            names = [mark.group_cid if kind == "server_group" else mark.name()]
        return [row for name in names for row in self._read(kind, name, mark.director)]

    def _page(self, kind: Kind, director_uuid: str, cursor: str | None) -> RowPage[CloudObject]:
        """On the last page with what is there in another form."""
        if kind == "vm":
            return RowPage(self._describe(kind, self._machines.list_with_power()))
        rows, following = self._client.page_of(TYPES[kind], cursor)
        if kind == "security_group":
            labels = list(self._client.list_type(LABEL))
            if not following:
                groups = rows if cursor is None else list(self._client.list_type("security group"))
                rows = [*rows, *self._lone_labels(labels, groups)]
            return RowPage(self._describe(kind, rows, labels), following)
        if kind == "server_group" and not following:
            rows += [*self._client.list_type("scale set"), *self._recorded(director_uuid)]
        return RowPage(self._describe(kind, [row for row in rows if kind != "disk" or not _is_part(row)]), following)

    def _recorded(self, director_uuid: str, only: str | None = None) -> Iterator[Row]:
        """The labels of server groups that are nothing but a record."""

        def present() -> list[str]:
            types: tuple[Type, ...] = ("availability set", "scale set")
            return [str(row["name"]) for type_ in types for row in self._client.list_type(type_)]

        for group in self._groups.server.list_recorded_only(director_uuid, present, only):
            row = self._client.get(LABEL, group.cid)
            if row:
                yield row

    def _lone_labels(self, labels: list[Row], groups: list[Row]) -> list[Row]:
        """Application security groups that are left of a security group which others deleted."""
        listed = {str(row["name"]).lower() for row in groups}
        lone = [row for row in labels if tag_of(row, NAME) and str(row["name"]).lower() not in listed]
        return [row for row in lone if self._client.get("security group", str(row["name"])) is None]

    def _users_of_images(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """VMs name their image, and images name no VM."""
        uses = self._machines.list_uses_of_images()
        return [tuple(user for image, user in uses if is_same(image, row["id"])) for row in rows]

    def _members(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """A list may leave out the members of an availability set, so one that seems to be empty is read by its name;
        those of others are known by their VMs."""
        vms = self._machines.list_all() if not all(is_a(row, "availability set") for row in rows) else []

        def members_of(row: Row) -> Iterator[str]:
            name = str(row["name"])
            if is_a(row, "availability set"):
                full = row if row["properties"].get("virtualMachines") else self._client.get("availability set", name)
                return (name_of(one["id"]) for one in (full or row)["properties"].get("virtualMachines") or ())
            group_of = scale_set_of if is_a(row, "scale set") else partial(tag_of, wanted=GROUP)
            return (str(vm["name"]) for vm in vms if is_same(group_of(vm), name))

        return [tuple(member.lower() for member in members_of(row)) for row in rows]

    def _users_of_security_groups(self, rows: list[Row], labels: list[Row] | None = None) -> list[tuple[str, ...]]:
        """Server groups that have it, and NICs and subnets; a label does not tell who bears it."""
        listed = self._client.list_type(LABEL) if labels is None else labels
        holders = holders_in(record for row in listed for record in read_records(row))
        nics = list(self._client.list_type("NIC")) if any(is_a(row, LABEL) for row in rows) else []

        def bearers(row: Row) -> tuple[str, ...]:
            if not is_a(row, LABEL):
                return users_of_rules(row)
            return tuple(str(nic["name"]).lower() for nic in nics if str(row["name"]).lower() in labels_of(nic))

        return [(*holders.get(str(row["name"]), ()), *bearers(row)) for row in rows]


def _state(kind: Kind, row: Row, users: Sequence[str]) -> str | None:
    if kind == "vm":
        return state_of(row)
    if kind == "disk":
        return "attached" if users else "detached"
    if kind == "image":
        return str(row["properties"].get("provisioningState"))
    return "live" if kind == "server_group" else None


def _users_of_nic(row: Row) -> tuple[str, ...]:
    used = row["properties"].get("virtualMachine") or row["properties"].get("privateEndpoint")
    return (name_of(used["id"]).lower(),) if used else ()


def _is_part(row: Row) -> bool:
    """A system or ephemeral disk that its VM has: it goes with it."""
    is_named = str(row["name"]).lower().endswith((f"-{OS}", f"-{EPHEMERAL}"))
    return is_named and bool(row.get("managedBy")) and mark_of(row) is None
