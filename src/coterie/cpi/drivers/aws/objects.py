"""The object table of AWS: who uses an object, and how a row reads as one. A snapshot of an image is part of it, and no
object of its own; nor are volumes and interfaces that come and go with their instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Row
from coterie.cpi.drivers.aws.disks import Disks, users
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.server_groups import Groups
from coterie.cpi.drivers.aws.stemcells import Stemcells
from coterie.cpi.kit.marking import DIRECTOR, GROUP
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.slotted import dataclass

_VALUES = 200  # that EC2 takes in one filter
_USERS = "_users"  # what a page adds to each of its rows
# kind → how those who use such objects are found: what is listed, by which filter, and the ids that a row of it names
_USES: Mapping[Kind, Sequence[tuple[Literal["vm", "interface"], str, Callable[[Row], Iterable[Any]]]]] = {
    "image": [("vm", "image_id", lambda row: [row.get("ImageId")])],
    "server_group": [
        ("vm", "placement_group_name", lambda row: [(row.get("Placement") or {}).get("GroupName")]),
        ("vm", f"tag:{GROUP}", lambda row: [ec2.tags_of(row).get(GROUP)]),
    ],
    "security_group": [("interface", "group_id", lambda row: [one["GroupId"] for one in row.get("Groups") or ()])],
    "network": [("interface", "subnet_id", lambda row: [row.get("SubnetId")])],
}
_STATES = {"pending": "building", "running": "running", "stopping": "stopped", "stopped": "stopped"}


@dataclass(frozen=True, slots=True)
class Objects:
    client: Client
    groups: Groups
    machines: Machines
    disks: Disks
    stemcells: Stemcells

    def table(self) -> ObjectTable:
        delete: Mapping[Kind, Callable[[str], None]] = {
            "vm": self.machines.delete,
            "disk": self.disks.delete,
            "snapshot": self.disks.delete_snapshot,
            "image": self.stemcells.delete_image,
            "security_group": self.groups.security.delete,
            "server_group": self.groups.delete,
        }
        kinds: Sequence[Kind] = (*delete, "network")
        table = {kind: self._kind(kind, delete.get(kind)) for kind in kinds}
        return ObjectTable(self.client.director_uuid, table, self.client.permit.limit, self.client.settings.keep)

    def _kind(self, kind: Kind, delete: Callable[[str], None] | None) -> ObjectKind[Row]:
        id_of = ec2.LISTINGS[kind].id

        def search(mark: Mark) -> Iterable[Row]:
            return self._own_rows(kind, ec2.list_marked(self.client, kind, mark))

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            """A cloud that ignores the filter lists strangers' objects too: these show it, and are left out."""
            rows, following = ec2.list_page(self.client, kind, cursor, tag__coterie_director=director_uuid)
            ours = [row for row in rows if ec2.tags_of(row).get(DIRECTOR) == director_uuid]
            own = self._own_rows(kind, ours)
            used = self._users(kind, [str(row[id_of]) for row in own])
            shown = [{**row, _USERS: used[str(row[id_of])]} for row in own]
            return RowPage(shown, following, complete=len(ours) == len(rows))

        def read(cid: str, director_uuid: str) -> Row | None:
            row = ec2.read(self.client, kind, cid)
            return next(iter(self._own_rows(kind, [row])), None) if row else None

        return ObjectKind(
            search,
            page,
            read,
            lambda row, director_uuid: self._describe(kind, row),
            (lambda cid, row: delete(cid)) if delete else None,
            owner=lambda row: ec2.tags_of(row).get(DIRECTOR),
            is_gone=ec2.is_gone,
        )

    def _own_rows(self, kind: Kind, rows: Sequence[Row]) -> Sequence[Row]:
        """Without the snapshots of images: an image and its snapshot bear one mark."""
        if kind != "snapshot":
            return rows
        intents, images = sorted({mark.intent for row in rows if (mark := ec2.mark_of(row))}), set[Mark | None]()
        for start in range(0, len(intents), _VALUES):
            found = ec2.list_rows(self.client, "image", tag__coterie_intent=intents[start : start + _VALUES])
            images |= {ec2.mark_of(row) for row in found}
        return [row for row in rows if ec2.mark_of(row) is None or ec2.mark_of(row) not in images]

    def _describe(self, kind: Kind, row: Row) -> CloudObject:
        """A security group's name is unique in its VPC; others have theirs in a tag."""
        cid, tags = str(row[ec2.LISTINGS[kind].id]), ec2.tags_of(row)
        name = str(row["GroupName"]) if kind == "security_group" else tags.get("Name", "")
        return CloudObject(kind, cid, name, mark=ec2.mark_of(row), tags=tags, **self._facts(kind, cid, row))

    def _facts(self, kind: Kind, cid: str, row: Row) -> dict[str, Any]:
        if kind == "vm":
            return _vm_facts(row)
        if kind == "disk":
            attached = "attached" if users(row) else "detached"
            created_at, az = _moment(row.get("CreateTime")), row.get("AvailabilityZone")
            return {"in_use_by": users(row), "created_at": created_at, "az": az, "state": attached}
        if kind == "snapshot":
            return {"in_use_by": (), "created_at": _moment(row.get("StartTime"))}
        used = row[_USERS] if _USERS in row else self._users(kind, [cid])[cid]
        if kind == "image":
            return {"in_use_by": (*used, *self._sharers(cid)), "state": row.get("State")}
        if kind == "server_group":
            return {"in_use_by": used, "state": "live"}
        return {"in_use_by": used, "az": row.get("AvailabilityZone")}

    def _sharers(self, cid: str) -> tuple[str, ...]:
        """Accounts, organizations and their units that the image is shared with; of a public one, all accounts. Their
        instances are not shown, so that they may start some counts as use."""
        answer = self.client.ask(
            f"read the launch permissions of image {cid}",
            "describe_image_attribute",
            ImageId=cid,
            Attribute="launchPermission",
        )
        return tuple(f"{word} {name}" for one in answer.get("LaunchPermissions") or () for word, name in one.items())

    def _users(self, kind: Kind, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Who uses each of these objects, by a few lists for all of them. The filters are not believed. Instances count
        as users of their image, though its end does not hurt them."""
        found: dict[str, dict[str, None]] = {one: {} for one in ids}
        if kind == "security_group" and ids:
            holders = self.groups.records.holders()
            found = {one: dict.fromkeys(holders.get(one, ())) for one in ids}
        for listed, word, named in _USES.get(kind, ()):
            for start in range(0, len(ids), _VALUES):
                for row in ec2.list_rows(self.client, listed, **{word: ids[start : start + _VALUES]}):
                    for one in found.keys() & set(() if ec2.is_gone(row) else named(row)):
                        found[one][str(row[ec2.LISTINGS[listed].id])] = None
        return {one: tuple(users) for one, users in found.items()}


def _vm_facts(row: Row) -> dict[str, Any]:
    """LaunchTime moves at every start: the root volume's time of attachment does not."""
    mapped = [one["Ebs"] for one in row.get("BlockDeviceMappings") or () if one.get("Ebs")]
    times = [one["AttachTime"] for one in mapped if one.get("AttachTime")]
    placement = row.get("Placement") or {}
    return {
        "in_use_by": (),
        "created_at": _moment(min(times, default=None)),
        "az": placement.get("AvailabilityZone"),
        "host": placement.get("HostId"),
        "state": _STATES.get(row["State"]["Name"]),
    }


def _moment(value: Any) -> float | None:
    return value.timestamp() if value is not None else None
