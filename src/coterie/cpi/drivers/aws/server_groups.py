"""Server groups as placement groups: spread for anti-affinity, partition for soft-anti-affinity. For host-affinity a
dedicated host that an operator allocated is adopted; none is allocated here, since hosts are paid for.

Placement groups are named by the CID, unique in a region, and keep policy and records in their tags. One without a
policy is a placement group too, which no instance is in: it carries the record of its security groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    CpiError,
    GroupInUse,
    GroupLimit,
    GroupMember,
    GroupMetadata,
    GroupView,
    InvalidCall,
    Mark,
    OutcomeUnknown,
    is_adopted,
    read_group_cid,
)
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters
from coterie.cpi.drivers.aws.properties import HOST_POLICY
from coterie.cpi.drivers.aws.security_groups import Ec2SecurityGroups
from coterie.cpi.drivers.aws.tags import POLICY, mark_of, marked, of_group, tag_list, tags_of
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord, GroupRecords, read_tags, tag_of
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.slotted import dataclass, field, replace

GONE = ("shutting-down", "terminated")
SPREAD_PER_AZ = 7  # running instances of one spread group in one availability zone
GROUPS_PER_REGION = 500
LIMITS: Mapping[str, GroupLimit] = {"anti-affinity": GroupLimit(members_per_az=SPREAD_PER_AZ)}
DOMAINS: Mapping[str, str] = {"soft-anti-affinity": "partition"}
_STRATEGIES = {"anti-affinity": "spread", "soft-anti-affinity": "partition"}
_POLICIES = {strategy: policy for policy, strategy in _STRATEGIES.items()}
_HOST, _HOSTS_IN_A_PAGE = "h-", 500
_IN_USE_S = 600.0  # for how long a group may be in use after its last instance was terminated


class Groups:
    """The kit's parts for server groups and their security groups, over EC2."""

    def __init__(self, client: Client, parts: Parts, waits: Waits) -> None:
        self.placement = PlacementGroups(client, waits)
        self.records = GroupRecords(TagRecords(client, self.placement))
        self.security = SecurityGroups(Ec2SecurityGroups(client, parts, waits), self.records, parts)
        self.server = ServerGroups(
            self.placement, self.security, self.records, client.settings.policies, client.director_uuid
        )

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        return self.refuse(metadata) or self.server.create(metadata, mark)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self.server.update(cid, metadata)

    def delete(self, cid: str) -> None:
        self.server.delete(cid)

    def inspect(self, cid: str) -> GroupView:
        """A dedicated host is the only host that its members may be on."""
        view = self.server.inspect(cid)
        return replace(view, hosts=(_wanted(cid),)) if view.policy == HOST_POLICY else view

    def refuse(self, metadata: GroupMetadata) -> str | None:
        """Refuse what `create` would refuse; the CID of what would be adopted."""
        adopted = self.server.find_adopted(metadata)
        if metadata.policy == HOST_POLICY and not adopted:
            raise no_host_error()
        return adopted


@dataclass(frozen=True, slots=True)
class PlacementGroups:
    """Fills the kit's `ServerGroupCloud`. `DescribePlacementGroups` has no pages, and a region holds 500 groups.
    `partitions`: id → how many the group has, for those that were seen; a group keeps their number for life."""

    noun = "placement group"
    leave_hint = "an instance leaves when it is terminated"

    client: Client
    waits: Waits
    partitions: dict[str, int] = field(default_factory=dict)

    def rows(self, **wanted: Any) -> list[Row]:
        found = self.client.ask(
            "list placement groups",
            "describe_placement_groups",
            Filters=filters(**wanted),
        )["PlacementGroups"]
        return [row for row in found if row.get("State") in ("available", "pending")]

    def read(self, name: str) -> Row | None:
        """By its name, which is unique; the filter is not believed."""
        return next((row for row in self.rows(group_name=name) if row["GroupName"] == name), None)

    def find(self, cid: str) -> ExistingGroup | None:
        wanted = _wanted(cid)
        if wanted.startswith(_HOST):
            host = self.read_host(wanted)
            return _existing_host(host) if host else None
        found = self.rows() if is_adopted(cid) else [self.read(cid)]
        row = next((one for one in found if one and wanted in (one["GroupId"], one["GroupName"])), None)
        return self._existing(row) if row and not _is_record_only(row) else None

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        """Not asked again for its members: EC2 refuses an instance in a group that is gone."""
        return self.find(cid)

    def list_named(self, name: str) -> list[ExistingGroup]:
        row = self.read(name)
        if row is None or _is_record_only(row):
            return []
        return [replace(self._existing(row), members=tuple(str(one["InstanceId"]) for one in self._instances(name)))]

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        found = [self._existing(row) for row in self.rows() if name in (row["GroupName"], row["GroupId"])]
        if HOST_POLICY in self.client.settings.policies:
            found += [_existing_host(row) for row in self._hosts() if name in (row["HostId"], tags_of(row).get("Name"))]
        return found

    def read_host(self, host_id: str) -> Row | None:
        return next((row for row in self._hosts() if row["HostId"] == host_id), None)

    def _hosts(self) -> list[Row]:
        """Dedicated hosts of this account; EC2 has no filter for their tags."""
        rows = self.client.list_all("list dedicated hosts", "describe_hosts", "Hosts", most=_HOSTS_IN_A_PAGE)
        return [row for row in rows if row.get("State") in ("available", "under-assessment")]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        row, is_new = self.create_row(mark.group_cid, metadata.policy, mark)
        return self._existing(row), is_new

    def create_row(self, cid: str, policy: str | None, mark: Mark, **more: str) -> tuple[Row, bool]:
        """The name makes it once: a second call under it is refused, and finds the first one's. Other processes take a
        group that is not visible yet for gone, so it is waited for, but not longer than it may take to turn up."""
        strategy = _STRATEGIES.get(policy or "", "spread")
        body: dict[str, Any] = {"GroupName": cid, "Strategy": strategy}
        if strategy == "partition":
            body["PartitionCount"] = self.client.settings.partition_count
        body["TagSpecifications"] = marked("placement-group", mark, **{GROUP: cid, POLICY: policy or NO_POLICY, **more})
        try:
            answer = self.client.change("create a placement group", "create_placement_group", **body)
        except Refusal as error:
            if not error.is_one("InvalidPlacementGroup.Duplicate"):
                raise
            return self._read_visible(cid), False
        try:
            return self._read_visible(cid), True
        except Overdue:
            made = dict(answer.get("PlacementGroup") or {})
            tags = body["TagSpecifications"][0]["Tags"]
            return {"GroupId": "", "State": "available", **body, "Tags": tags, **made}, True
        except CpiError as error:
            what = f"placement group {cid} was created, and cannot be read"
            raise OutcomeUnknown(what, why=str(error), remedy="look for it by its mark") from error

    def delete(self, group: ExistingGroup) -> None:
        self.delete_named(group.name)

    def delete_named(self, name: str) -> None:
        """AWS keeps a group "in use" for minutes after its last instance was terminated."""

        def attempt() -> bool | None:
            try:
                self.client.change(f"delete placement group {name}", "delete_placement_group", GroupName=name)
            except Refusal as error:
                if error.is_one("InvalidPlacementGroup.Unknown"):
                    return True
                if not error.is_one("InvalidPlacementGroup.InUse") or self._instances(name):
                    raise
                return None
            return True

        try:
            self.waits.until(f"the deletion of placement group {name}", attempt, _IN_USE_S)
        except Overdue as error:
            remedy = "try again in some minutes; if it stays so, have AWS support look at it"
            raise GroupInUse(
                f"placement group {name} has no members and is still in use", why=error.why, remedy=remedy
            ) from error

    def list_tagged(self, cid: str) -> list[str]:
        return [str(row["InstanceId"]) for row in self._tagged_rows(cid)]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        """In every state but terminated: AWS deletes a group with stopped members, which then never start again."""
        if not groups and record and record.policy is None:
            return self.list_tagged(cid)
        return [member for group in groups for member in group.members]

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        if group is None:
            rows = self._tagged_rows(cid)
        elif group.policy == HOST_POLICY:
            rows = list_instances(self.client, filters(host_id=group.id))
            rows = [row for row in rows if (row.get("Placement") or {}).get("HostId") == group.id]
        else:
            rows = self._instances(group.name)
        joined = {str(row["InstanceId"]) for row in rows}
        lost = [] if group is None else [row for row in self._tagged_rows(cid) if row["InstanceId"] not in joined]
        notes = [f"VM {row['InstanceId']} is no member of placement group {cid}" for row in lost]
        return [self._member(row) for row in rows], notes

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """EC2 changes the security groups of living network interfaces."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        for row in self._tagged_rows(cid):
            for nic in row.get("NetworkInterfaces") or ():
                has = [str(one["GroupId"]) for one in nic.get("Groups") or ()]
                wanted = list(dict.fromkeys([*(one for one in has if one not in set(old)), *new]))
                if wanted and set(wanted) != set(has):
                    self.client.change(
                        "change security groups",
                        "modify_network_interface_attribute",
                        NetworkInterfaceId=nic["NetworkInterfaceId"],
                        Groups=wanted,
                    )

    def _existing(self, row: Row) -> ExistingGroup:
        name, mark = str(row["GroupName"]), mark_of(row)
        policy = tags_of(row).get(POLICY) if mark else _POLICIES.get(str(row.get("Strategy")))
        ours = mark is not None and mark.director == self.client.director_uuid and mark.group_cid == name
        self.partitions[str(row.get("GroupId"))] = int(row.get("PartitionCount") or 0)
        return ExistingGroup(str(row.get("GroupId") or ""), name, policy, (), ours, row)

    def _read_visible(self, cid: str) -> Row:
        return self.waits.until(
            f"placement group {cid}, which exists", lambda: self.read(cid), self.client.settings.settle_s
        )

    def _instances(self, name: str) -> list[Row]:
        rows = list_instances(self.client, filters(placement_group_name=name))
        return [row for row in rows if (row.get("Placement") or {}).get("GroupName") == name]

    def _tagged_rows(self, cid: str) -> list[Row]:
        return list_instances(self.client, of_group(cid))

    def _member(self, row: Row) -> GroupMember:
        """Only a dedicated host is shown; a partition is, and partitions of different zones are different ones."""
        mark, placement = mark_of(row), row.get("Placement") or {}
        ours = mark is not None and mark.director == self.client.director_uuid
        number = placement.get("PartitionNumber")
        domain = f"{placement.get('AvailabilityZone')}/{number}" if number else None
        return GroupMember(str(row["InstanceId"]), placement.get("HostId"), ours, domain)


@dataclass(frozen=True, slots=True)
class TagRecords:
    """Fills the kit's `RecordStore`: tags of the placement group, `coterie-record-<n>: <policy> <id> <id>`."""

    limit = 10  # ids that the value of a tag, 256 characters, holds beside the longest policy

    client: Client
    groups: PlacementGroups

    def list_records(self) -> list[GroupRecord]:
        return [record for row in self.groups.rows() for record in read_records(row)]

    def records_of(self, cid: str) -> list[GroupRecord]:
        row = self.groups.read(cid)
        return read_records(row) if row else []

    def require_room(self, cid: str) -> None:
        """Every server group has a placement group for its own records."""

    def add_record(self, record: GroupRecord) -> None:
        found = read_group_cid(record.cid)
        if found is None:
            raise CpiError(f"{record.cid} is no server group of ours", remedy="use the CID that create answered")
        tag = tag_of(record)
        row = self.groups.read(record.cid)
        if row is None and record.policy is None:
            mark = Mark(self.client.director_uuid, found.intent)
            row, is_new = self.groups.create_row(record.cid, None, mark, **tag)
            if is_new:
                return
        row = row or self.groups._read_visible(record.cid)
        self.client.change("record security groups", "create_tags", Resources=[row["GroupId"]], Tags=tag_list(tag))

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        cid = records[0].cid
        row = self.groups.read(cid)
        if row is None:
            return
        left = {record.number for record in read_records(row)} - {record.number for record in records}
        if _is_record_only(row) and not left:
            self.groups.delete_named(cid)
            return
        keys = [{"Key": key} for record in records for key in tag_of(record)]
        try:
            self.client.change("delete records", "delete_tags", Resources=[row["GroupId"]], Tags=keys)
        except Refusal as error:
            if not error.is_missing:
                raise


def list_instances(client: Client, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Those that are not on their way out."""
    found = client.list_all("list instances", "describe_instances", "Reservations", Filters=list(wanted))
    rows = [row for reservation in found for row in reservation.get("Instances") or ()]
    return [row for row in rows if row["State"]["Name"] not in GONE]


def read_records(row: Row) -> list[GroupRecord]:
    return read_tags(str(row["GroupName"]), tags_of(row))


def no_host_error() -> InvalidCall:
    return InvalidCall(
        "host-affinity needs a dedicated host that is there",
        why="hosts are paid for, so none is allocated",
        remedy="allocate one, and say placement.adopt: true with its id or Name tag as placement.server_group",
    )


def _existing_host(row: Row) -> ExistingGroup:
    name = tags_of(row).get("Name") or str(row["HostId"])
    members = tuple(str(one["InstanceId"]) for one in row.get("Instances") or ())
    return ExistingGroup(str(row["HostId"]), name, HOST_POLICY, members, False, row)


def _wanted(cid: str) -> str:
    """The id of what was adopted; else the CID is the name."""
    return cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid


def _is_record_only(row: Row) -> bool:
    return tags_of(row).get(POLICY) == NO_POLICY
