"""Security groups as CloudStack holds them, their rules, and the records of server groups, which are tags of the
account's default security group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from coterie.cpi.contract import InvalidCall, Mark, NotSupported, SecurityRule
from coterie.cpi.contract.rules import WITH_PORTS, make_rule
from coterie.cpi.drivers.cloudstack.client import IN_USE, PARAMETER, Client, Refusal, Row
from coterie.cpi.drivers.cloudstack.marks import security_group_mark_of
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.slotted import dataclass, field

_KIND = "SecurityGroup"
_ADD = {"ingress": "authorizeSecurityGroupIngress", "egress": "authorizeSecurityGroupEgress"}
_REMOVE = {"ingress": "revokeSecurityGroupIngress", "egress": "revokeSecurityGroupEgress"}
_LISTED = {"ingress": "ingressrule", "egress": "egressrule"}


@dataclass(frozen=True, slots=True)
class CloudSecurityGroups:
    """Fills the kit's `SecurityGroupCloud`. Names are unique in an account."""

    client: Client
    parts: Parts = field(default_factory=Parts)
    egress_needs_rules: ClassVar[bool] = False

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        rows, _ = self.client.page("listSecurityGroups", securitygroupname=name)
        return self._existing(rows[0]) if rows else None

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.client.read("listSecurityGroups", cid)
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        rows = map(self._existing, self.client.list_all("listSecurityGroups"))
        return [one for one in rows if one.mark == mark]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        for rule in rules:
            if rule.group:
                raise InvalidCall(
                    f"a security rule names the group {rule.group!r} at its other end",
                    why="this driver makes rules of addresses only",
                    remedy="give the addresses as cidr, or make the security group yourself and adopt it",
                )

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        try:
            row, is_new = self.parts.create(
                mark, "security_group", name, lambda: self._create(name, mark), lambda created: str(created[0]["id"])
            )
        except Refusal:
            found = self.find_named(name)
            if found is None:
                raise
            return found, False
        return self._existing(row), is_new

    def _create(self, name: str, mark: Mark) -> tuple[Row, bool]:
        """A refused call may have created it all the same, or an earlier one under this mark."""
        try:
            description = f"{mark.name()} {mark.director}"
            answer = self.client.call("createSecurityGroup", name=name, description=description)
            return dict(answer["securitygroup"]), True
        except Refusal:
            rows, _ = self.client.page("listSecurityGroups", securitygroupname=name)
            if not rows or security_group_mark_of(rows[0], self.client.director_uuid) != mark:
                raise
            return rows[0], False

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        return [_read_rule(side, rule) for side, key in _LISTED.items() for rule in found.row.get(key) or ()]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        try:
            self.client.run(_ADD[rule.direction], **_rule_parameters(cid, rule))
        except Refusal:
            # an earlier call's job may have added it meanwhile, and CloudStack takes no rule twice
            again = self.read(cid)
            if again is None or rule not in [one.rule for one in self.rules_of(again)]:
                raise

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        try:
            self.client.run(_REMOVE[listed.rule.direction], id=listed.id)
        except Refusal:
            again = self.read(cid)
            if again and listed in self.rules_of(again):
                raise

    def delete(self, cid: str) -> None:
        try:
            self.client.call("deleteSecurityGroup", id=cid)
        except Refusal as error:
            if error.errorcode != PARAMETER or self.read(cid):
                raise

    def delete_if_unused(self, cid: str) -> None:
        try:
            self.delete(cid)
        except Refusal as error:
            if error.errorcode not in (IN_USE, PARAMETER):
                raise

    def require_default(self) -> Row:
        """The account's default security group: every account has one, and it cannot be deleted."""
        found = self.find_named("default")
        if found:
            return dict(found.row)
        raise NotSupported(
            "this account has no default security group, so the zone has no security groups",
            remedy="leave security_groups out, and give the group a policy",
        )

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark = security_group_mark_of(row, self.client.director_uuid)
        if mark and not self.parts.is_ours(mark, "security_group", str(row["id"]), str(row["name"])):
            mark = None
        return ExistingSecurityGroup(str(row["id"]), mark, row, str(row["name"]))


@dataclass(frozen=True, slots=True)
class TagRecords:
    """Fills the kit's `RecordStore`. Affinity groups can neither be tagged nor changed, so records are tags of the
    default security group: key `<cid>.<number>`, value `<policy>|<id>,<id>`."""

    client: Client
    cloud: CloudSecurityGroups
    limit: int = 6  # ids that the value of a tag, 255 characters, holds beside the longest policy

    def list_records(self) -> list[GroupRecord]:
        carrier = self.cloud.find_named("default")
        tags = (carrier.row.get("tags") or ()) if carrier else ()
        found = [_read_record(str(tag["key"]), str(tag["value"])) for tag in tags]
        return [record for record in found if record]

    def records_of(self, cid: str) -> list[GroupRecord]:
        return [record for record in self.list_records() if record.cid == cid]

    def require_room(self, cid: str) -> None:
        """CloudStack takes any number of tags."""

    def add_record(self, record: GroupRecord) -> None:
        value = f"{record.policy or NO_POLICY}|{','.join(record.security_groups)}"
        try:
            self.client.add_tags(_KIND, self.cloud.require_default()["id"], {_key(record): value})
        except Refusal:
            if record not in self.list_records():
                raise

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        self.client.delete_tags(_KIND, self.cloud.require_default()["id"], [_key(record) for record in records])


def _key(record: GroupRecord) -> str:
    return f"{record.cid}.{record.number}"


def _read_record(key: str, value: str) -> GroupRecord | None:
    cid, _, number = key.rpartition(".")
    policy, bar, ids = value.partition("|")
    if not cid.startswith("cg-") or not bar or not number.isdecimal():
        return None
    security_groups = tuple(one for one in ids.split(",") if one)
    return GroupRecord(cid, int(number), None if policy == NO_POLICY else policy, security_groups)


def _rule_parameters(security_group: str, rule: SecurityRule) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "securitygroupid": security_group,
        "protocol": "all" if rule.protocol == "any" else rule.protocol,
        "cidrlist": [rule.cidr],
    }
    if rule.protocol in WITH_PORTS:
        parameters["startport"], parameters["endport"] = rule.ports or (1, 65535)
    if rule.protocol == "icmp":
        parameters["icmptype"], parameters["icmpcode"] = rule.ports or (-1, -1)
    return parameters


def _read_rule(direction: str, row: Row) -> ListedRule:
    """Some releases list ports of protocols that have none; they mean nothing."""
    protocol = str(row.get("protocol")).lower()
    names = ("icmptype", "icmpcode") if protocol in ("icmp", "1") else ("startport", "endport")
    ports = (row.get(names[0]), row.get(names[1]))
    group = None if row.get("cidr") else row.get("securitygroupname")
    return ListedRule(str(row["ruleid"]), make_rule(direction, protocol, ports, row.get("cidr"), group))
