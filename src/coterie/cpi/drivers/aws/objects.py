"""The object table of AWS: for each kind how EC2 lists it by tag, and how a row reads as an object. A snapshot of an
image is part of it, and no object of its own; nor are volumes and interfaces that come and go with their instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.aws.client import Client, Row, filters
from coterie.cpi.drivers.aws.disks import Disks, users
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.server_groups import GONE, Groups
from coterie.cpi.drivers.aws.stemcells import Stemcells
from coterie.cpi.drivers.aws.tags import describe, mark_of, moment, of_director, of_mark, tags_of
from coterie.cpi.kit.marking import DIRECTOR, GROUP
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.slotted import dataclass

Describe = Callable[[Row, str], CloudObject]
_VALUES = 200  # that EC2 takes in one filter
_USERS = "_users"  # what a page adds to each of its rows
# kind → how those who use such objects are found: what is listed, by which filter, and the ids that a row of it names
_USES: Mapping[Kind, Sequence[tuple[str, str, Callable[[Row], Iterable[Any]]]]] = {
    "image": [("vm", "image_id", lambda row: [row.get("ImageId")])],
    "server_group": [
        ("vm", "placement_group_name", lambda row: [(row.get("Placement") or {}).get("GroupName")]),
        ("vm", f"tag:{GROUP}", lambda row: [tags_of(row).get(GROUP)]),
    ],
    "security_group": [("nic", "group_id", lambda row: [one["GroupId"] for one in row.get("Groups") or ()])],
    "network": [("nic", "subnet_id", lambda row: [row.get("SubnetId")])],
}
_STATES = {"pending": "building", "running": "running", "stopping": "stopped", "stopped": "stopped"}


@dataclass(frozen=True, slots=True)
class _Listing:
    """`operation` and the keys of its answer; `more`: what restricts it to this account."""

    operation: str
    key: str
    id: str
    id_filter: str
    more: Mapping[str, Any]
    paged: bool = True


LISTINGS: Mapping[Kind, _Listing] = {
    "vm": _Listing("describe_instances", "Reservations", "InstanceId", "instance_id", {}),
    "disk": _Listing("describe_volumes", "Volumes", "VolumeId", "volume_id", {}),
    "snapshot": _Listing("describe_snapshots", "Snapshots", "SnapshotId", "snapshot_id", {"OwnerIds": ["self"]}),
    "image": _Listing("describe_images", "Images", "ImageId", "image_id", {"Owners": ["self"]}),
    "security_group": _Listing("describe_security_groups", "SecurityGroups", "GroupId", "group_id", {}),
    "server_group": _Listing("describe_placement_groups", "PlacementGroups", "GroupName", "group_name", {}, False),
    "network": _Listing("describe_subnets", "Subnets", "SubnetId", "subnet_id", {}),
}


class Objects:
    def __init__(self, client: Client, groups: Groups, machines: Machines, disks: Disks, stemcells: Stemcells) -> None:
        self._client = client
        self._groups = groups
        self._describe: Mapping[Kind, Describe] = {
            "vm": _describe_vm,
            "disk": _describe_disk,
            "snapshot": self._describe_snapshot,
            "image": self._describe_image,
            "security_group": self._describe_security_group,
            "server_group": lambda row, _: describe(
                "server_group", str(row["GroupName"]), row, in_use_by=self._users_of("server_group", row), state="live"
            ),
            "network": self._describe_network,
        }
        self._delete: Mapping[Kind, Callable[[str], None]] = {
            "vm": machines.delete,
            "disk": disks.delete,
            "snapshot": disks.delete_snapshot,
            "image": stemcells.delete_image,
            "security_group": groups.security.delete,
            "server_group": groups.delete,
        }

    def table(self) -> ObjectTable:
        kinds = {kind: self._kind(kind) for kind in LISTINGS}
        return ObjectTable(self._client.director_uuid, kinds, self._client.limit, self._client.settings.keep)

    def _kind(self, kind: Kind) -> ObjectKind[Row]:
        listing = LISTINGS[kind]

        def search(mark: Mark) -> Iterable[Row]:
            return [row for row in self._rows(kind, of_mark(mark)) if mark_of(row) == mark]

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            """A cloud that ignores the filter lists strangers' objects too: these show it, and are left out."""
            rows, following = self._page(listing, of_director(director_uuid), cursor)
            ours = [row for row in rows if tags_of(row).get(DIRECTOR) == director_uuid]
            own = self._own_rows(kind, ours)
            used = self._users(kind, [str(row[listing.id]) for row in own])
            shown = [{**row, _USERS: used[str(row[listing.id])]} for row in own]
            return RowPage(shown, following or None, complete=len(ours) == len(rows))

        def read(cid: str, director_uuid: str) -> Row | None:
            rows = self._rows(kind, filters(**{listing.id_filter: cid}))
            found = next((row for row in rows if row[listing.id] == cid), None)
            if found is None:
                self._client.require_settled(cid)
            return found

        return ObjectKind(
            search,
            page,
            read,
            self._describe[kind],
            (lambda cid, row: self._delete[kind](cid)) if kind in self._delete else None,
            owner=lambda row: tags_of(row).get(DIRECTOR),
            is_gone=_is_gone,
        )

    def _rows(self, kind: Kind, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
        listing, cursor, found = LISTINGS[kind], None, []
        while True:
            rows, cursor = self._page(listing, wanted, cursor)
            found += self._own_rows(kind, rows)
            if not cursor:
                return found

    def _page(
        self, listing: _Listing, wanted: Sequence[Mapping[str, Any]], cursor: str | None
    ) -> tuple[list[Row], str | None]:
        what, given = f"list {listing.key}", {"Filters": list(wanted), **listing.more}
        if not listing.paged:
            return list(self._client.ask(what, listing.operation, **given)[listing.key]), None
        rows, following = self._client.page(what, listing.operation, listing.key, cursor, **given)
        if listing.key == "Reservations":
            rows = [row for one in rows for row in one.get("Instances") or ()]
        return rows, following

    def _own_rows(self, kind: Kind, rows: Sequence[Row]) -> list[Row]:
        """Without the snapshots of images: an image and its snapshot bear one mark."""
        if kind != "snapshot":
            return list(rows)
        marks = {mark.intent: mark for row in rows if (mark := mark_of(row))}
        intents, images = sorted(marks), set[Mark | None]()
        for start in range(0, len(intents), _VALUES):
            wanted = filters(tag__coterie_intent=intents[start : start + _VALUES])
            images |= {mark_of(row) for row in self._rows("image", wanted)}
        return [row for row in rows if mark_of(row) is None or mark_of(row) not in images]

    def _describe_snapshot(self, row: Row, director_uuid: str) -> CloudObject:
        cid = str(row["SnapshotId"])
        return describe("snapshot", cid, row, in_use_by=(), created_at=moment(row.get("StartTime")))

    def _describe_image(self, row: Row, director_uuid: str) -> CloudObject:
        """Deregistering does not hurt instances; those that were made from it are shown as its users all the same.
        Those of other accounts are not shown, so an account that may start some counts as a user."""
        cid = str(row["ImageId"])
        used = (*self._users_of("image", row), *self._sharers(cid))
        return describe("image", cid, row, in_use_by=used, state=row.get("State"))

    def _sharers(self, cid: str) -> tuple[str, ...]:
        """Accounts, organizations and their units that the image is shared with; of a public one, all accounts."""
        answer = self._client.ask(
            f"read the launch permissions of image {cid}",
            "describe_image_attribute",
            ImageId=cid,
            Attribute="launchPermission",
        )
        return tuple(f"{word} {name}" for one in answer.get("LaunchPermissions") or () for word, name in one.items())

    def _describe_security_group(self, row: Row, director_uuid: str) -> CloudObject:
        cid, name = str(row["GroupId"]), str(row["GroupName"])
        used = self._users_of("security_group", row)
        return CloudObject("security_group", cid, name, mark=mark_of(row), in_use_by=used, tags=tags_of(row))

    def _describe_network(self, row: Row, director_uuid: str) -> CloudObject:
        used = self._users_of("network", row)
        return describe("network", str(row["SubnetId"]), row, in_use_by=used, az=row.get("AvailabilityZone"))

    def _users_of(self, kind: Kind, row: Row) -> tuple[str, ...]:
        cid = str(row[LISTINGS[kind].id])
        found: tuple[str, ...] = row[_USERS] if _USERS in row else self._users(kind, [cid])[cid]
        return found

    def _users(self, kind: Kind, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Who uses each of these objects, by a few lists for all of them. The filters are not believed."""
        found: dict[str, dict[str, None]] = {one: {} for one in ids}
        if kind == "security_group" and ids:
            holders = self._groups.records.holders()
            found = {one: dict.fromkeys(holders.get(one, ())) for one in ids}
        for listed, word, named in _USES.get(kind, ()):
            for start in range(0, len(ids), _VALUES):
                for row in self._list_users(listed, filters(**{word: ids[start : start + _VALUES]})):
                    for one in found.keys() & set(named(row)):
                        found[one][str(row["InstanceId" if listed == "vm" else "NetworkInterfaceId"])] = None
        return {one: tuple(users) for one, users in found.items()}

    def _list_users(self, listed: str, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
        if listed == "vm":
            return [row for row in self._rows("vm", wanted) if not _is_gone(row)]
        what, operation = "list network interfaces", "describe_network_interfaces"
        return list(self._client.list_all(what, operation, "NetworkInterfaces", Filters=list(wanted)))


def _is_gone(row: Row) -> bool:
    state = row.get("State")
    if isinstance(state, Mapping):
        return state["Name"] in GONE
    return state in ("deleting", "deleted", "deregistered")


def _describe_vm(row: Row, director_uuid: str) -> CloudObject:
    """LaunchTime moves at every start: the root volume's time of attachment does not."""
    mapped = [one["Ebs"] for one in row.get("BlockDeviceMappings") or () if one.get("Ebs")]
    times = [one["AttachTime"] for one in mapped if one.get("AttachTime")]
    placement = row.get("Placement") or {}
    return describe(
        "vm",
        str(row["InstanceId"]),
        row,
        in_use_by=(),
        created_at=moment(min(times)) if times else None,
        az=placement.get("AvailabilityZone"),
        host=placement.get("HostId"),
        state=_STATES.get(row["State"]["Name"]),
    )


def _describe_disk(row: Row, director_uuid: str) -> CloudObject:
    return describe(
        "disk",
        str(row["VolumeId"]),
        row,
        in_use_by=users(row),
        created_at=moment(row.get("CreateTime")),
        az=row.get("AvailabilityZone"),
        state="attached" if users(row) else "detached",
    )
