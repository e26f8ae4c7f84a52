"""Server groups as availability sets, with a life of their own: made by `create_server_group` only, deleted when they
are empty. Azure itself refuses to delete one that has members, so nothing here locks.

The policy is a tag of the set. Records of security groups are tags of an application security group that is named by
the CID; a server group without a policy is nothing but that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupLimit,
    GroupMember,
    GroupMetadata,
    InvalidCall,
    Mark,
    NotSupported,
    is_adopted,
    read_group_cid,
)
from coterie.cpi.drivers.azure.client import ASG, HOST_GROUP, NIC, NSG, SET, Client, Row, is_same, name_of
from coterie.cpi.drivers.azure.machines import Machines, fault_domain
from coterie.cpi.drivers.azure.security_groups import AzureSecurityGroups
from coterie.cpi.drivers.azure.tags import POLICY, RECORD, mark_of, marked, tags_of
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord, GroupRecords
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, Membership, ServerGroups

SET_MEMBERS = 200
DOMAINS: Mapping[str, str] = dict.fromkeys(("anti-affinity", "soft-anti-affinity"), "fault domain")
_HOSTS = "hostgroup."  # before the name of a dedicated host group, where an id is one


@dataclass(frozen=True, slots=True)
class Groups:
    """The kit's parts over Azure. Lists lag, so the records of the server group in question are read by name."""

    client: Client
    machines: Machines
    azure: AzureSecurityGroups
    parts: Parts

    @property
    def sets(self) -> AvailabilitySets:
        return AvailabilitySets(self.client, self.machines)

    def membership(self, env: Mapping[str, Any]) -> Membership | None:
        """Of the group that a new VM joins, whose records alone are read."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        return self.of(str(cid), alone=True).membership(env) if cid else None

    def of(self, cid: str | None = None, *, alone: bool = False) -> ServerGroups:
        records = GroupRecords(LabelRecords(self.client, cid, alone))
        policies = self.client.settings.policies
        return ServerGroups(self.sets, self.security(records), records, policies, self.client.director_uuid)

    def security(self, records: GroupRecords | None = None) -> SecurityGroups:
        return SecurityGroups(self.azure, records or GroupRecords(LabelRecords(self.client)), self.parts)

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        self.require_one(metadata)
        return self.of(mark.group_cid).create(metadata, mark)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self.require_one(metadata, cid)
        self.of(cid).update(cid, metadata)

    def require_one(self, metadata: GroupMetadata, cid: str | None = None) -> None:
        """A NIC takes one network security group; more could not all be enforced."""
        if len(metadata.security_groups) > 1:
            self.of(cid).require_security_groups(cid, metadata)
            raise NotSupported(
                f"a server group of Azure has one security group, not {len(metadata.security_groups)}",
                why="a NIC takes one network security group",
                remedy="put the rules of all of them into one",
                details={"field": "security_groups"},
            )


@dataclass(frozen=True, slots=True)
class AvailabilitySets:
    """Fills the kit's `ServerGroupCloud`. Dedicated host groups stand beside them, to be adopted for host-affinity."""

    noun = "availability set"
    leave_hint = "a VM leaves its availability set when it is deleted"

    client: Client
    machines: Machines

    def find(self, cid: str) -> ExistingGroup | None:
        wanted = cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid
        type_ = HOST_GROUP if wanted.startswith(_HOSTS) else SET
        row = self.client.get(type_, wanted.removeprefix(_HOSTS))
        return self._existing(type_, row) if row else None

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return self.find(cid)

    def list_named(self, name: str) -> list[ExistingGroup]:
        found = self.find(name)
        return [found] if found else []

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        rows = [(type_, self.client.get(type_, name)) for type_ in (SET, HOST_GROUP)]
        return [self._existing(type_, row) for type_, row in rows if row]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        """Calls under one mark write the same set."""
        if metadata.policy == "host-affinity":
            raise InvalidCall(
                "dedicated hosts cost money from their first second, so none are made",
                remedy="have the operator make a host group, and say placement.adopt: true with its name",
            )
        settings, cid = self.client.settings, mark.group_cid
        counts = {
            "platformFaultDomainCount": settings.fault_domains,
            "platformUpdateDomainCount": settings.update_domains,
        }
        body = {
            "location": settings.location,
            "sku": {"name": "Aligned"},
            "tags": marked(mark, **{GROUP: cid, POLICY: str(metadata.policy)}),
            "properties": counts,
        }
        row = self.client.put(f"create availability set {cid}", self.client.id(SET, cid), body)
        return self._existing(SET, row), True

    def delete(self, group: ExistingGroup) -> None:
        self.client.delete(f"delete availability set {group.name}", self.client.id(SET, group.name))

    def list_tagged(self, cid: str) -> list[str]:
        return [str(row["name"]) for row in self.machines.list_all() if tags_of(row).get(GROUP) == cid]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        if not groups and record and record.policy is None:
            return self.list_tagged(cid)
        return [member for group in groups for member in group.members]

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        names = group.members if group else self.list_tagged(cid)
        rows = [self.machines.read(name) for name in names]  # no list has the fault domain
        return [self._member(row) for row in rows if row], []

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Azure changes the security groups of living NICs."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        """Of our members only: an operator's VM in the same set keeps its own."""
        for row in self._members(group.members if group else self.list_tagged(cid)):
            mark = mark_of(row)
            if mark is None or mark.director != self.client.director_uuid or not is_same(tags_of(row).get(GROUP), cid):
                continue
            for reference in row["properties"]["networkProfile"].get("networkInterfaces") or ():
                nic = self.client.get(NIC, name_of(reference["id"]).lower())
                if nic is not None:
                    self._exchange(nic, old, new)

    def _exchange(self, nic: Row, old: Collection[str], new: Collection[str]) -> None:
        """A NIC is written as a whole: with all that it has and that can be written."""
        labels = [one for one in new if self.client.get(ASG, one)]
        properties = {key: value for key, value in nic["properties"].items() if key not in _NIC_READ_ONLY}
        if "dnsSettings" in properties:
            dns = properties["dnsSettings"] or {}
            properties["dnsSettings"] = {key: value for key, value in dns.items() if key not in _DNS_READ_ONLY}
        has = name_of((properties.pop("networkSecurityGroup", None) or {"id": ""})["id"])
        kept = [*new] or [one for one in [has] if one and one.lower() not in {each.lower() for each in old}]
        if kept:
            properties["networkSecurityGroup"] = {"id": self.client.id(NSG, kept[0])}
        properties["ipConfigurations"] = [self._config(one, old, labels) for one in properties["ipConfigurations"]]
        beside = {"extendedLocation": nic["extendedLocation"]} if nic.get("extendedLocation") else {}
        body = {"location": nic["location"], "tags": tags_of(nic), "properties": properties, **beside}
        self.client.put(f"change the security group of {nic['name']}", self.client.id(NIC, nic["name"]), body)

    def _config(self, config: Row, old: Collection[str], labels: Sequence[str]) -> Row:
        given = {key: value for key, value in config["properties"].items() if key not in _CONFIG_READ_ONLY}
        gone = {one.lower() for one in (*old, *labels)}
        kept = [one for one in given.get("applicationSecurityGroups") or () if name_of(one["id"]).lower() not in gone]
        given["applicationSecurityGroups"] = [*kept, *({"id": self.client.id(ASG, one)} for one in labels)]
        return {"name": config["name"], "properties": given}

    def _existing(self, type_: str, row: Row) -> ExistingGroup:
        name, mark = str(row["name"]), mark_of(row)
        members = tuple(name_of(one["id"]).lower() for one in row["properties"].get("virtualMachines") or ())
        if type_ == HOST_GROUP:
            tagged = self.list_tagged(f"{ADOPTED_PREFIX}{_HOSTS}{name}")
            return ExistingGroup(f"{_HOSTS}{name}", name, "host-affinity", tuple(tagged), False, row)
        ours = mark is not None and mark.director == self.client.director_uuid and is_same(mark.group_cid, name)
        policy = tags_of(row).get(POLICY) if mark else "soft-anti-affinity"
        return ExistingGroup(name, name, policy, members, ours, row)

    def _members(self, names: Sequence[str]) -> Iterator[Row]:
        """From a list, and by name where it lags."""
        listed = {str(row["name"]).lower(): row for row in self.machines.list_all()} if names else {}
        for name in names:
            row = listed.get(name.lower()) or self.machines.read(name)
            if row is not None:
                yield row

    def _member(self, row: Row) -> GroupMember:
        mark = mark_of(row)
        ours = mark is not None and mark.director == self.client.director_uuid
        return GroupMember(str(row["name"]), None, ours, fault_domain(row))


_NIC_READ_ONLY = frozenset(
    (
        *("provisioningState", "resourceGuid", "macAddress", "virtualMachine", "privateEndpoint", "primary"),
        *("hostedWorkloads", "tapConfigurations", "dscpConfiguration"),
        *("vnetEncryptionSupported", "defaultOutboundConnectivityEnabled", "allowPort25Out"),
    )
)
_CONFIG_READ_ONLY = frozenset(("provisioningState", "privateLinkConnectionProperties"))
_DNS_READ_ONLY = frozenset(("appliedDnsServers", "internalFqdn", "internalDomainNameSuffix"))


@dataclass(frozen=True, slots=True)
class LabelRecords:
    """Fills the kit's `RecordStore`: tags `coterie-record-<n>: <policy> <id>` of an application security group, whose
    name is the CID. `sure`: the server group whose records are read by name, too; `alone`: no others are listed."""

    limit = 1  # security groups of a server group

    client: Client
    sure: str | None = None
    alone: bool = False

    def list_records(self) -> list[GroupRecord]:
        listed = () if self.alone else self.client.list_type(ASG)
        rows = {str(row["name"]).lower(): row for row in listed}
        if self.sure:
            rows.pop(self.sure.lower(), None)
            row = self.client.get(ASG, self.sure)
            rows |= {self.sure.lower(): row} if row else {}
        return [record for row in rows.values() for record in _read_records(row)]

    def require_room(self, cid: str) -> None:
        """Every server group has a label of its own."""

    def add_record(self, record: GroupRecord) -> None:
        found = read_group_cid(record.cid)
        if found is None:
            raise InvalidCall(f"{record.cid} is no server group of ours", remedy="use the CID that create answered")
        mark = Mark(self.client.director_uuid, found.intent)
        value = " ".join([record.policy or NO_POLICY, *record.security_groups])
        has = tags_of(self.client.get(ASG, record.cid) or {})
        self._write(record.cid, {**marked(mark, **{GROUP: record.cid}), **has, f"{RECORD}{record.number}": value})

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        cid = records[0].cid
        row = self.client.get(ASG, cid)
        if row is None:
            return
        gone = {f"{RECORD}{record.number}" for record in records}
        left = {key: value for key, value in tags_of(row).items() if key not in gone}
        if any(key.startswith(RECORD) for key in left):
            self._write(cid, left)
        else:
            self.client.delete(f"delete the records of {cid}", self.client.id(ASG, cid))

    def _write(self, cid: str, tags: Mapping[str, str]) -> None:
        body: dict[str, Any] = {"location": self.client.settings.location, "tags": dict(tags)}
        self.client.put(f"record the security groups of {cid}", self.client.id(ASG, cid), body)


def group_limits(fault_domains: int) -> dict[str, GroupLimit]:
    return {"anti-affinity": GroupLimit(fault_domains), "soft-anti-affinity": GroupLimit(SET_MEMBERS)}


def placement(client: Client, group: str) -> Row:
    """How a VM names the group that it joins."""
    if group.startswith(_HOSTS):
        return {"hostGroup": {"id": client.id(HOST_GROUP, group.removeprefix(_HOSTS))}}
    return {"availabilitySet": {"id": client.id(SET, group)}}


def _read_records(row: Row) -> list[GroupRecord]:
    found = []
    for key, value in tags_of(row).items():
        number, (policy, *ids) = key.removeprefix(RECORD), value.split(" ")
        if key.startswith(RECORD) and number.isdecimal():
            recorded = None if policy == NO_POLICY else policy
            found.append(GroupRecord(str(row["name"]), int(number), recorded, tuple(filter(None, ids))))
    return found
