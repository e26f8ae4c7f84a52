"""How each kind is found by its mark, listed, described and deleted. A mark gives the name, so finding is one request
that never lags; lists are those of the resource group, which lag and are not filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.azure.client import (
    ASG,
    DISK,
    IMAGE,
    NIC,
    NSG,
    SCALE_SET,
    SET,
    SNAPSHOT,
    VM,
    Client,
    Row,
    is_same,
    name_of,
)
from coterie.cpi.drivers.azure.disks import Disks, users
from coterie.cpi.drivers.azure.machines import MOST_NICS, OS, Machines, state_of
from coterie.cpi.drivers.azure.security_groups import labels_of, records_in
from coterie.cpi.drivers.azure.server_groups import Groups, scale_set_of
from coterie.cpi.drivers.azure.stemcells import Stemcells
from coterie.cpi.drivers.azure.tags import NAME, describe, mark_of, tags_of
from coterie.cpi.kit.group_records import holders_in
from coterie.cpi.kit.marking import DIRECTOR
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage

_TYPES: Mapping[Kind, str] = {
    "vm": VM,
    "disk": DISK,
    "snapshot": SNAPSHOT,
    "image": IMAGE,
    "server_group": SET,
    "security_group": NSG,
    "port": NIC,
}
_RECORD = "recorded"  # the type of a row that stands for a server group with nothing but records


class Objects:
    def __init__(self, client: Client, groups: Groups, machines: Machines, disks: Disks, stemcells: Stemcells) -> None:
        self._client = client
        self._groups = groups
        self._machines = machines
        self._describe: Mapping[Kind, Callable[[Row], CloudObject]] = {
            "vm": lambda row: describe("vm", row, in_use_by=(), state=state_of(row)),
            "disk": lambda row: describe(
                "disk", row, in_use_by=users(row), state="attached" if users(row) else "detached"
            ),
            "snapshot": lambda row: describe("snapshot", row, in_use_by=()),
            "image": self._describe_image,
            "server_group": self._describe_group,
            "security_group": self._describe_security_group,
            "port": _describe_port,
        }
        self._delete: Mapping[Kind, Callable[[str], None]] = {
            "vm": machines.delete,
            "disk": disks.delete,
            "snapshot": disks.delete_snapshot,
            "image": stemcells.delete,
            "server_group": groups.delete,
            "security_group": groups.security.delete,
            "port": machines.delete_nic,
        }

    def table(self) -> ObjectTable:
        kinds = {kind: self._kind(kind) for kind in _TYPES}
        return ObjectTable(self._client.director_uuid, kinds, self._client.limit, self._client.settings.keep)

    def _kind(self, kind: Kind) -> ObjectKind[Row]:
        def read(cid: str, director_uuid: str) -> Row | None:
            expand = {"expand": "instanceView"} if kind == "vm" else {}
            row = self._client.get(_TYPES[kind], cid, **expand)
            if row is None and kind == "server_group":
                return self._client.get(SCALE_SET, cid) or next(self._recorded(director_uuid, cid), None)
            return self._label(cid) if row is None and kind == "security_group" else row

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            if kind == "vm":
                return RowPage(self._machines.list_with_power())
            path = f"{self._client.group_id()}/providers/{_TYPES[kind]}"
            rows, following = self._client.page(f"list {kind}s", path, cursor)
            rows = [row for row in rows if kind != "disk" or not _is_part(row)]
            if kind == "server_group" and not following:
                rows += [*self._scale_sets(), *self._recorded(director_uuid)]
            if kind == "security_group":
                labels = list(self._client.list_type(ASG))
                if not following:
                    rows += self._lone_labels(labels, rows if cursor is None else list(self._client.list_type(NSG)))
                held = holders_in(records_in(labels))
                rows = [{**row, "_holders": held.get(str(row["name"]), ())} for row in rows]
            if kind == "image" and rows:
                rows = [{**row, "_users": used} for row, used in zip(rows, self._users_of_images(rows), strict=True)]
            return RowPage(rows, following)

        return ObjectKind(
            lambda mark: self._search(kind, mark, read),
            page,
            read,
            lambda row, director_uuid: self._describe[kind](row),
            lambda cid, row: self._delete[kind](cid),
            owner=lambda row: {key.lower(): value for key, value in tags_of(row).items()}.get(DIRECTOR),
            filtered=False,
        )

    def _search(self, kind: Kind, mark: Mark, read: Callable[[str, str], Row | None]) -> Iterable[Row]:
        if kind == "security_group":  # its name follows from the manifest
            groups = list(self._client.list_type(NSG))
            rows = [*groups, *self._lone_labels(list(self._client.list_type(ASG)), groups)]
            return [row for row in rows if mark_of(row) == mark]
        if kind == "port":  # the first may be gone where others are left
            found = (read(f"{mark.name()}-{number}", mark.director) for number in range(MOST_NICS))
            return (row for row in found if row)
        names = {"server_group": mark.group_cid}
        row = read(names.get(kind, mark.name()), mark.director)
        return [row] if row else []

    def _recorded(self, director_uuid: str, only: str | None = None) -> Iterator[Row]:
        def present() -> list[str]:
            return [str(row["name"]) for type_ in (SET, SCALE_SET) for row in self._client.list_type(type_)]

        for group in self._groups.server.list_recorded_only(director_uuid, present, only):
            row = self._client.get(ASG, group.cid)
            if row:
                members = [{"id": one} for one in group.members]
                yield {**row, "type": _RECORD, "properties": {"virtualMachines": members}}

    def _lone_labels(self, labels: list[Row], groups: list[Row]) -> list[Row]:
        """Application security groups that are left of a security group which others deleted."""
        listed = {str(row["name"]).lower() for row in groups}
        lone = [row for row in labels if NAME in tags_of(row) and str(row["name"]).lower() not in listed]
        return [row for row in lone if self._client.get(NSG, str(row["name"])) is None]

    def _label(self, cid: str) -> Row | None:
        row = self._client.get(ASG, cid)
        return row if row and NAME in tags_of(row) else None

    def _scale_sets(self) -> list[Row]:
        """With their members, of all of them by one list."""
        rows = list(self._client.list_type(SCALE_SET))
        vms = self._machines.list_all() if rows else []
        return [_with_members(row, [vm for vm in vms if is_same(scale_set_of(vm), row["name"])]) for row in rows]

    def _users_of_images(self, rows: list[Row]) -> list[tuple[str, ...]]:
        """VMs name their image, and images name no VM."""
        uses = self._machines.list_uses_of_images()
        return [tuple(user for image, user in uses if is_same(image, row["id"])) for row in rows]

    def _describe_image(self, row: Row) -> CloudObject:
        used = row["_users"] if "_users" in row else self._users_of_images([row])[0]
        return describe("image", row, in_use_by=used, state=row["properties"].get("provisioningState"))

    def _describe_group(self, row: Row) -> CloudObject:
        """A list may leave the members out, so a group that seems to be empty is read by its name."""
        if is_same(row.get("type"), SCALE_SET) and "virtualMachines" not in row["properties"]:
            row = _with_members(row, self._groups.scale_sets.list_members(str(row["name"])))
        elif is_same(row.get("type"), SET) and not row["properties"].get("virtualMachines"):
            row = self._client.get(SET, str(row["name"])) or row
        members = tuple(name_of(one["id"]).lower() for one in row["properties"].get("virtualMachines") or ())
        return describe("server_group", row, in_use_by=members, state="live")

    def _describe_security_group(self, row: Row) -> CloudObject:
        cid = str(row["name"])
        holders = row["_holders"] if "_holders" in row else self._groups.records.holders().get(cid, ())
        nics = [name_of(one["id"]).lower() for one in row["properties"].get("networkInterfaces") or ()]
        subnets = [name_of(one["id"]).lower() for one in row["properties"].get("subnets") or ()]
        if is_same(row.get("type"), ASG):  # it does not tell who bears it
            nics = [str(nic["name"]).lower() for nic in self._client.list_type(NIC) if cid in labels_of(nic)]
        return describe("security_group", row, in_use_by=(*holders, *nics, *subnets))


def _with_members(row: Row, vms: list[Row]) -> Row:
    return {**row, "properties": {**row["properties"], "virtualMachines": [{"id": vm["name"]} for vm in vms]}}


def _describe_port(row: Row) -> CloudObject:
    used = row["properties"].get("virtualMachine") or row["properties"].get("privateEndpoint")
    return replace(describe("port", row), in_use_by=(name_of(used["id"]).lower(),) if used else ())


def _is_part(row: Row) -> bool:
    """A system or ephemeral disk that its VM has: it goes with it."""
    return bool(row.get("managedBy")) and mark_of(row) is None and str(row["name"]).lower().endswith((f"-{OS}", "-eph"))
