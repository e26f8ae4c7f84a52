"""Server groups as Nova holds them, and the records of what Nova cannot remember of them.

Nova's names are not unique, and a group can be neither tagged nor changed: ours are named by their CID. Records are
tags of the project's default security group, which cannot be deleted: `<cid>.<n>.<policy>.<id>.<id>`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import quote
from uuid import UUID

from coterie.cpi.contract import ADOPTED_PREFIX, CpiError, GroupMember, GroupMetadata, Mark, is_adopted
from coterie.cpi.drivers.openstack.client import Client, Refusal, Row
from coterie.cpi.drivers.openstack.networks import Ports
from coterie.cpi.drivers.openstack.rows import Rows, group_tag, host_of, ids, is_gone, mark_of_tags
from coterie.cpi.drivers.openstack.security_groups import NeutronSecurityGroups
from coterie.cpi.kit.create_once import SingleWriter
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord, GroupRecords
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups
from coterie.slotted import dataclass, field

_TAGS_LIMIT = 50  # of newer Neutrons, for one object


class Groups:
    """The kit's parts for server groups and their security groups, over Nova and Neutron."""

    def __init__(self, client: Client, rows: Rows, ports: Ports, writer: SingleWriter[Refusal]) -> None:
        store = TagRecords(client, rows)
        self.records = GroupRecords(store)
        self.neutron = NeutronSecurityGroups(client, rows, writer)
        self.nova = NovaServerGroups(client, rows, ports, store, writer)
        self.security = SecurityGroups(self.neutron, self.records, rows.parts)
        policies = client.settings.policies
        self.server = ServerGroups(self.nova, self.security, self.records, policies, client.director_uuid)


@dataclass(frozen=True, slots=True)
class NovaServerGroups:
    """Fills the kit's `ServerGroupCloud`. A group that was seen is remembered: Nova itself refuses to boot into one
    that is gone."""

    noun = "server group"
    leave_hint = ""

    client: Client
    rows: Rows
    ports: Ports
    records: TagRecords
    writer: SingleWriter[Refusal]
    _seen: dict[str, ExistingGroup] = field(default_factory=dict, init=False)

    def find(self, cid: str) -> ExistingGroup | None:
        seen = self._seen.get(cid)
        known = cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else (seen.id if seen else "")
        row = self.rows.read("server_group", known)
        found = _existing(row) if row else None
        if found is None and not is_adopted(cid):
            found = next(iter(self.list_named(cid)), None)
        if found:
            self._seen[cid] = found
        else:
            self._seen.pop(cid, None)
        return found

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return self._seen.get(cid) or self.find(cid)

    def list_named(self, name: str) -> list[ExistingGroup]:
        """Nova filters nothing and tells no age: of several, all callers choose the one with members."""
        named = [row for row in self.rows.list_all("server_group") if row["name"] == name]
        found = [_existing(row) for row in self.rows.without_copies("server_group", named)]
        return sorted(found, key=lambda group: (not group.members, group.id))

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        """By name or id: Nova lets many have one name."""
        return [_existing(row) for row in self.rows.list_all("server_group") if name in (row["name"], row["id"])]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        body = {"name": mark.group_cid, "policy": metadata.policy}
        change = self.rows.create_change("server_group", mark, body)
        created = self.writer.submit("server_group", mark.intent, change)
        row = None if created.new else self.rows.read("server_group", created.cid)  # a new one is as requested
        return _existing(row or {**body, "id": created.cid}), created.new

    def delete(self, group: ExistingGroup) -> None:
        self._seen.pop(group.name, None)
        self.rows.delete("server_group", group.id)

    def list_tagged(self, cid: str) -> list[str]:
        return ids(self._list_tagged_rows(cid))

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        """Nova would delete a group with members, and its VMs would live on without it. If Nova has lost the group, its
        members do not count. A group without a policy exists only as a record: VMs with its tag count."""
        if not groups and record and record.policy is None:
            return self.list_tagged(cid)
        return [member for group in groups for member in group.members]

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        """Ours come in one list, by their tag; those that joined without us are read one by one."""
        ours = {str(row["id"]): row for row in self._list_tagged_rows(cid)}
        if group is None:
            return [self._member(row) for row in ours.values()], []
        found = [ours.get(one) or self.rows.read("vm", one) for one in group.members]
        return [self._member(row) for row in found if row and not is_gone(row)], []

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Neutron changes the security groups of living ports."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        for row in self._list_tagged_rows(cid):
            mark = mark_of_tags(row.get("tags") or ())
            for port in self.rows.list_marked("port", mark) if mark else ():
                has = [str(one) for one in port.get("security_groups") or ()]
                kept = [one for one in has if one not in set(old)]
                # a port without any lets nothing through; one that was created without any has the default one
                wanted = list(dict.fromkeys([*kept, *new])) or [self.records.default_group()]
                if set(wanted) != set(has):
                    self.ports.change(port, {"security_groups": wanted})

    def _list_tagged_rows(self, cid: str) -> list[Row]:
        rows = self.rows.list_all("vm", tags=group_tag(cid))
        return [row for row in rows if group_tag(cid) in (row.get("tags") or ()) and not is_gone(row)]

    def _member(self, row: Row) -> GroupMember:
        mark = mark_of_tags(row.get("tags") or ())
        ours = mark is not None and mark.director == self.client.director_uuid
        return GroupMember(str(row["id"]), host_of(row), ours)


@dataclass(frozen=True, slots=True)
class TagRecords:
    """Fills the kit's `RecordStore`."""

    limit = 5  # that one tag of 255 characters holds

    client: Client
    rows: Rows

    def list_records(self) -> list[GroupRecord]:
        return [record for record in map(read_record, self._carrier().get("tags") or ()) if record]

    def records_of(self, cid: str) -> list[GroupRecord]:
        return [record for record in self.list_records() if record.cid == cid]

    def require_room(self, cid: str) -> None:
        tags = self._carrier().get("tags") or ()
        if len(tags) >= _TAGS_LIMIT and not any(tag.startswith(f"{cid}.") for tag in tags):
            raise CpiError(
                f"this project has {_TAGS_LIMIT} server groups with security groups already, and takes no more",
                remedy="delete some, name the security groups in cloud_properties instead, or use another project",
            )

    def add_record(self, record: GroupRecord) -> None:
        path = _tag_path(self.default_group(), record)
        self.client.put("record security groups", "network", path)

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        carrier = self.default_group()
        for record in records:
            self.client.delete("delete a record", "network", _tag_path(carrier, record))

    def default_group(self) -> str:
        return str(self._carrier()["id"])

    def _carrier(self) -> Row:
        """The project's default security group. An administrator's list shows other projects' too."""
        mine = {"name": "default", "project_id": self.client.project, "fields": ["id", "tags"]}  # without its rules
        rows = list(self.rows.list_all("security_group", **mine))
        if len(rows) == 1:
            return rows[0]
        raise CpiError(
            f"this project has {len(rows)} security groups named default, not one",
            remedy="have Neutron's default security group, and no other of that name",
        )


def record_tag(record: GroupRecord) -> str:
    hexes = [UUID(one).hex for one in record.security_groups]
    return ".".join([record.cid, str(record.number), record.policy or NO_POLICY, *hexes])


def read_record(tag: str) -> GroupRecord | None:
    cid, *rest = tag.split(".")
    if not cid.startswith("cg-") or len(rest) < 2 or not rest[0].isdecimal():
        return None
    try:
        security_groups = tuple(str(UUID(hex=one)) for one in rest[2:])
    except ValueError:
        return None
    return GroupRecord(cid, int(rest[0]), None if rest[1] == NO_POLICY else rest[1], security_groups)


def _tag_path(carrier: str, record: GroupRecord) -> str:
    return f"/security-groups/{carrier}/tags/{quote(record_tag(record), safe='')}"


def _existing(row: Row) -> ExistingGroup:
    policy = row.get("policy") or next(iter(row.get("policies") or ()), None)
    members = tuple(str(one) for one in row.get("members") or ())
    return ExistingGroup(str(row["id"]), str(row["name"]), policy, members, row=row)
