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
    is_adopted,
    read_group_cid,
)
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Row
from coterie.cpi.drivers.aws.properties import HOST_POLICY
from coterie.cpi.drivers.aws.security_groups import Ec2SecurityGroups
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord, GroupRecords, read_tags, tag_of
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups
from coterie.cpi.kit.waits import Overdue
from coterie.slotted import dataclass, field, replace

POLICY = "coterie-policy"  # a tag of a placement group
SPREAD_PER_AZ = 7  # running instances of one spread group in one availability zone
GROUPS_PER_REGION = 500
LIMITS: Mapping[str, GroupLimit] = {"anti-affinity": GroupLimit(members_per_az=SPREAD_PER_AZ)}
DOMAINS: Mapping[str, str] = {"soft-anti-affinity": "partition"}
_STRATEGIES = {"anti-affinity": "spread", "soft-anti-affinity": "partition"}
_POLICIES = {strategy: policy for policy, strategy in _STRATEGIES.items()}
_HOST = "h-"  # as ids of dedicated hosts begin
_IN_USE_S = 600.0  # for how long a group may be in use after its last instance was terminated


class Groups:
    """The kit's parts for server groups and their security groups, over EC2."""

    def __init__(self, client: Client, parts: Parts) -> None:
        self.placement = PlacementGroups(client)
        self.records = GroupRecords(TagRecords(client, self.placement))
        self.security = SecurityGroups(Ec2SecurityGroups(client, parts), self.records, parts)
        self.server = ServerGroups(
            self.placement, self.security, self.records, client.settings.policies, client.director_uuid
        )

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        if metadata.policy == HOST_POLICY and not self.server.find_adopted(metadata):
            raise no_host_error()
        return self.server.create(metadata, mark)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self.server.update(cid, metadata)

    def delete(self, cid: str) -> None:
        self.server.delete(cid)

    def inspect(self, cid: str) -> GroupView:
        return self.server.inspect(cid)


@dataclass(frozen=True, slots=True)
class PlacementGroups:
    """Fills the kit's `ServerGroupCloud`. `DescribePlacementGroups` has no pages, and a region holds 500 groups.
    `partitions`: id → how many the group has, for those that were seen; a group keeps their number for life."""

    noun = "placement group"
    leave_hint = "an instance leaves when it is terminated"

    client: Client
    partitions: dict[str, int] = field(default_factory=dict)

    def rows(self, **wanted: str) -> list[Row]:
        return [row for row in ec2.list_rows(self.client, "server_group", **wanted) if not ec2.is_gone(row)]

    def read(self, name: str) -> Row | None:
        """By its name, which is unique."""
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
            found += [
                _existing_host(row) for row in self._hosts() if name in (row["HostId"], ec2.tags_of(row).get("Name"))
            ]
        return found

    def read_host(self, host_id: str) -> Row | None:
        return next((row for row in self._hosts() if row["HostId"] == host_id), None)

    def _hosts(self) -> list[Row]:
        """Dedicated hosts of this account; EC2 has no filter for their tags."""
        return [
            row for row in ec2.list_rows(self.client, "host") if row.get("State") in ("available", "under-assessment")
        ]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        row, is_new = self.create_row(mark.group_cid, metadata.policy, mark)
        return self._existing(row), is_new

    def create_row(self, cid: str, policy: str | None, mark: Mark, **more: str) -> tuple[Row, bool]:
        tags = {GROUP: cid, POLICY: policy or NO_POLICY, **more}
        body: dict[str, Any] = {"GroupName": cid, "Strategy": _STRATEGIES.get(policy or "", "spread")}
        if body["Strategy"] == "partition":
            body["PartitionCount"] = self.client.settings.partition_count
        body["TagSpecifications"] = ec2.marked("placement-group", mark, **tags)

        def create() -> None:
            self.client.change("create a placement group", "create_placement_group", **body)

        duplicate = "InvalidPlacementGroup.Duplicate"
        return ec2.create_named(self.client, f"placement group {cid}", create, duplicate, lambda: self.read(cid))

    def delete(self, group: ExistingGroup) -> None:
        self.delete_named(group.name)

    def delete_named(self, name: str) -> None:
        """AWS keeps a group "in use" for minutes after its last instance was terminated."""
        in_use, what = "InvalidPlacementGroup.InUse", f"placement group {name}"
        try:
            self.client.delete_when_free(
                what, "delete_placement_group", in_use, _IN_USE_S, lambda: self._instances(name), GroupName=name
            )
        except Overdue as error:
            remedy = "try again in some minutes; if it stays so, have AWS support look at it"
            raise GroupInUse(f"{what} has no members and is still in use", why=error.why, remedy=remedy) from error

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
            rows = list_instances(self.client, host_id=group.id)
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
        name, mark = str(row["GroupName"]), ec2.own_mark(self.client, row)
        policy = ec2.tags_of(row).get(POLICY) if ec2.mark_of(row) else _POLICIES.get(str(row.get("Strategy")))
        ours = mark is not None and mark.group_cid == name
        self.partitions[str(row.get("GroupId"))] = int(row.get("PartitionCount") or 0)
        return ExistingGroup(str(row.get("GroupId") or ""), name, policy, (), ours, row)

    def _instances(self, name: str) -> list[Row]:
        rows = list_instances(self.client, placement_group_name=name)
        return [row for row in rows if (row.get("Placement") or {}).get("GroupName") == name]

    def _tagged_rows(self, cid: str) -> list[Row]:
        rows = list_instances(self.client, tag__coterie_group=cid)
        return [row for row in rows if ec2.tags_of(row).get(GROUP) == cid]

    def _member(self, row: Row) -> GroupMember:
        """Only a dedicated host is shown; a partition is, and partitions of different zones are different ones."""
        placement = row.get("Placement") or {}
        number, is_ours = placement.get("PartitionNumber"), ec2.own_mark(self.client, row) is not None
        domain = f"{placement.get('AvailabilityZone')}/{number}" if number else None
        return GroupMember(str(row["InstanceId"]), placement.get("HostId"), is_ours, domain)


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
        row = row or ec2.wait_until_visible(self.client, record.cid, lambda: self.groups.read(record.cid))
        ec2.write_tags(self.client, str(row["GroupId"]), tag)

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
        self.client.delete(f"records of {cid}", "delete_tags", Resources=[row["GroupId"]], Tags=keys)


def list_instances(client: Client, **wanted: str) -> list[Row]:
    """Those that are not on their way out."""
    return [row for row in ec2.list_rows(client, "vm", **wanted) if not ec2.is_gone(row)]


def read_records(row: Row) -> list[GroupRecord]:
    return read_tags(str(row["GroupName"]), ec2.tags_of(row))


def no_host_error() -> InvalidCall:
    return InvalidCall(
        "host-affinity needs a dedicated host that is there",
        why="hosts are paid for, so none is allocated",
        remedy="allocate one, and say placement.adopt: true with its id or Name tag as placement.server_group",
    )


def _existing_host(row: Row) -> ExistingGroup:
    """A dedicated host is the only host that its members may be on."""
    host = str(row["HostId"])
    members = tuple(str(one["InstanceId"]) for one in row.get("Instances") or ())
    return ExistingGroup(host, ec2.tags_of(row).get("Name") or host, HOST_POLICY, members, False, row, (host,))


def _wanted(cid: str) -> str:
    """The id of what was adopted; else the CID is the name."""
    return cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid


def _is_record_only(row: Row) -> bool:
    return ec2.tags_of(row).get(POLICY) == NO_POLICY
