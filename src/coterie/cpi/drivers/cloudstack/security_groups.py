"""Security groups as CloudStack holds them, their rules, and the records of server groups, which are tags of the
account's default security group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import InvalidCall, Mark, NotSupported, SecurityGroup
from coterie.cpi.drivers.cloudstack.client import IN_USE, PARAMETER, Client, Refusal, Row
from coterie.cpi.drivers.cloudstack.marks import security_group_mark_of
from coterie.cpi.kit.group_records import NO_POLICY, GroupRecord
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, read_ports

_KIND = "SecurityGroup"
_COMMANDS = {"ingress": "authorizeSecurityGroupIngress", "egress": "authorizeSecurityGroupEgress"}
_LISTED = {"authorizeSecurityGroupIngress": "ingressrule", "authorizeSecurityGroupEgress": "egressrule"}


@dataclass(frozen=True, slots=True)
class CloudSecurityGroups:
    """Fills the kit's `SecurityGroupCloud`. Names are unique in an account."""

    client: Client

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        rows, _ = self.client.page("listSecurityGroups", securitygroupname=name)
        return self._existing(rows[0]) if rows else None

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.client.read("listSecurityGroups", cid)
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        rows = map(self._existing, self.client.list_all("listSecurityGroups"))
        return [one for one in rows if one.mark == mark]

    def require_rules(self, request: SecurityGroup) -> None:
        for rule in request.rules:
            _rule_call("", rule)

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        description = f"{mark.name()} {mark.director}"
        try:
            row = self.client.call("createSecurityGroup", name=name, description=description)["securitygroup"]
        except Refusal:
            found = self.find_named(name)
            if found is None:
                raise
            return found, False
        return self._existing(row), True

    def add_missing_rules(self, found: ExistingSecurityGroup, request: SecurityGroup, ids: Mapping[str, str]) -> None:
        for rule in request.rules:
            command, parameters = _rule_call(found.id, rule)
            if _has_rule(found.row, command, parameters):
                continue
            try:
                self.client.run(command, **parameters)
            except Refusal:
                # an earlier call's job may have added it meanwhile, and CloudStack takes no rule twice
                again = self.find_named(request.name)
                if again is None or not _has_rule(again.row, command, parameters):
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
        return ExistingSecurityGroup(str(row["id"]), security_group_mark_of(row, self.client.director_uuid), row)


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


def _rule_call(security_group: str, rule: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The command that adds a rule, and its parameters."""
    direction = str(rule.get("direction", "ingress"))
    if direction not in _COMMANDS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use ingress or egress")
    if rule.get("group"):
        raise InvalidCall(
            f"a security rule names the group {rule['group']!r} at its other end",
            why="this driver makes rules of addresses only",
            remedy="give the addresses as cidr, or make the security group yourself: one that exists is used as it is",
        )
    protocol = str(rule.get("protocol") or "tcp").lower().replace("any", "all")
    parameters: dict[str, Any] = {
        "securitygroupid": security_group,
        "protocol": protocol,
        "cidrlist": [str(rule.get("cidr") or "0.0.0.0/0")],
    }
    if protocol in ("tcp", "udp"):
        parameters["startport"], parameters["endport"] = read_ports(rule)
    return _COMMANDS[direction], parameters


def _has_rule(row: Mapping[str, Any], command: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a listed security group has what this call would add."""
    (cidr,) = parameters["cidrlist"]
    wanted = (parameters["protocol"], cidr, parameters.get("startport"), parameters.get("endport"))
    return any(wanted == _listed_rule(rule) for rule in row.get(_LISTED[command]) or ())


def _listed_rule(rule: Row) -> tuple[str, str | None, int | None, int | None]:
    """Some releases list ports of protocols that have none; they mean nothing."""
    protocol = str(rule.get("protocol")).lower()
    ports = (rule.get("startport"), rule.get("endport")) if protocol in ("tcp", "udp") else (None, None)
    return protocol, rule.get("cidr"), *ports
