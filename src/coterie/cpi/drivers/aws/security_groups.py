"""Security groups as EC2 holds them: of one VPC, with names that are unique there, and rules with ids."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

from coterie.cpi.contract import InvalidCall, Mark, SecurityRule
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Refusal, Row
from coterie.cpi.drivers.aws.networks import vpc_of
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.cpi.kit.waits import Overdue
from coterie.slotted import dataclass

_RULES = 60  # of one group, in one direction, where the quota was not raised
_NIC_S = 60.0  # for how long a terminated instance's network interface may still hold a group


@dataclass(frozen=True, slots=True)
class Ec2SecurityGroups:
    """Fills the kit's `SecurityGroupCloud`."""

    client: Client
    parts: Parts
    egress_needs_rules: ClassVar[bool] = True

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name in the VPC, or by id."""
        rows = ec2.list_rows(self.client, "security_group", group_name=name, vpc_id=vpc_of(self.client))
        found = next((row for row in rows if row["GroupName"] == name), None)
        return self._existing(found) if found else self.read(name)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = ec2.look(self.client, "security_group", cid)
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        found = map(self._existing, ec2.list_marked(self.client, "security_group", mark))
        return [one for one in found if one.mark]

    def require_rules(self, rules: Sequence[SecurityRule]) -> None:
        for direction in ("ingress", "egress"):
            count = sum(1 for rule in rules if rule.direction == direction)
            if count > _RULES:
                raise InvalidCall(f"{count} {direction} rules are too many", remedy=f"use at most {_RULES}")

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        def create() -> str:
            answer = self.client.change(
                f"create security group {name}",
                "create_security_group",
                GroupName=name,
                Description=f"created by Coterie as {mark.name()}",
                VpcId=vpc_of(self.client),
                TagSpecifications=ec2.marked("security-group", mark, Name=name),
            )
            self.client.note_created(str(answer["GroupId"]))
            return str(answer["GroupId"])

        return ec2.create_named(
            self.client,
            f"security group {name}",
            lambda: self.parts.create(mark, "security_group", name, create, id_of=str),
            "InvalidGroup.Duplicate",
            lambda: self.find_named(name),
        )

    def rules_of(self, found: ExistingSecurityGroup) -> list[ListedRule]:
        """EC2 joins rules of equal protocol and ports into one entry with several other ends."""
        entries = [("ingress", one) for one in found.row.get("IpPermissions") or ()]
        entries += [("egress", one) for one in found.row.get("IpPermissionsEgress") or ()]
        return [listed for direction, entry in entries for listed in _read_entry(direction, entry)]

    def add_rule(self, cid: str, rule: SecurityRule) -> None:
        with_effect = f"authorize_security_group_{rule.direction}"
        try:
            self.client.change("add a rule", with_effect, GroupId=cid, IpPermissions=[_entry(rule)])
        except Refusal as error:
            if not error.is_one("InvalidPermission.Duplicate"):
                raise

    def remove_rule(self, cid: str, listed: ListedRule) -> None:
        operation = f"revoke_security_group_{listed.rule.direction}"
        try:
            self.client.change("remove a rule", operation, GroupId=cid, IpPermissions=[_entry(listed.rule)])
        except Refusal as error:
            if not error.is_one("InvalidPermission.NotFound"):
                raise

    def delete(self, cid: str) -> None:
        """Network interfaces of terminated instances hold it for a while."""
        self.client.delete_when_free(
            f"security group {cid}",
            "delete_security_group",
            "DependencyViolation",
            _NIC_S,
            lambda: self.users(cid),
            GroupId=cid,
        )
        self.client.forget_created(cid)

    def delete_if_unused(self, cid: str) -> None:
        if self.users(cid):
            return
        try:
            with suppress(Overdue):
                self.delete(cid)
        except Refusal as error:
            if not error.is_one("DependencyViolation"):
                raise

    def users(self, cid: str) -> list[Row]:
        """Network interfaces that are in this group."""
        rows = ec2.list_rows(self.client, "interface", group_id=cid)
        return [row for row in rows if any(one["GroupId"] == cid for one in row.get("Groups") or ())]

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark, cid, name = ec2.own_mark(self.client, row), str(row["GroupId"]), str(row["GroupName"])
        is_ours = mark is not None and self.parts.is_ours(mark, "security_group", cid, name)
        return ExistingSecurityGroup(cid, mark if is_ours else None, row, name)


def _entry(rule: SecurityRule) -> dict[str, Any]:
    """A rule as EC2 takes it."""
    low, high = rule.ports or ((0, 65535) if rule.protocol in ("tcp", "udp") else (-1, -1))
    protocol = {"any": "-1", "icmp": "icmpv6" if rule.family == "IPv6" else "icmp"}.get(rule.protocol, rule.protocol)
    entry: dict[str, Any] = {"IpProtocol": protocol}
    if protocol != "-1":
        entry |= {"FromPort": low, "ToPort": high}
    if rule.other:
        return {**entry, "PrefixListIds": [{"PrefixListId": rule.other}]}
    if rule.group:
        return {**entry, "UserIdGroupPairs": [{"GroupId": rule.group}]}
    if rule.family == "IPv6":
        return {**entry, "Ipv6Ranges": [{"CidrIpv6": rule.cidr}]}
    return {**entry, "IpRanges": [{"CidrIp": rule.cidr}]}


def _read_entry(direction: str, entry: Row) -> list[ListedRule]:
    """A group as the other end counts for both families, as in manifests. Prefix lists are of people."""
    protocol, ports = entry.get("IpProtocol"), (entry.get("FromPort"), entry.get("ToPort"))
    rules = [make_rule(direction, protocol, ports, one["CidrIp"]) for one in entry.get("IpRanges") or ()]
    rules += [make_rule(direction, protocol, ports, one["CidrIpv6"]) for one in entry.get("Ipv6Ranges") or ()]
    rules += [
        make_rule(direction, protocol, ports, other=one["PrefixListId"]) for one in entry.get("PrefixListIds") or ()
    ]
    for one in entry.get("UserIdGroupPairs") or ():
        for family in ("IPv4", "IPv6"):
            rules.append(make_rule(direction, protocol, ports, None, str(one["GroupId"]), family))
    return [ListedRule(str(rule), rule) for rule in rules]
