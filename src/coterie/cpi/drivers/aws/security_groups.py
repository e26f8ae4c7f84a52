"""Security groups as EC2 holds them: of one VPC, with names that are unique there, and rules with ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from coterie.cpi.contract import CpiError, InvalidCall, Mark, SecurityRule
from coterie.cpi.contract.rules import make_rule
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters
from coterie.cpi.drivers.aws.tags import mark_of, marked, of_mark, with_mark
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, ListedRule
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.slotted import dataclass

_RULES = 60  # of one group, in one direction, where the quota was not raised
_NIC_S = 60.0  # for how long a terminated instance's network interface may still hold a group


@dataclass(frozen=True, slots=True)
class Ec2SecurityGroups:
    """Fills the kit's `SecurityGroupCloud`. The VPC is that of `default_subnet`."""

    client: Client
    parts: Parts
    waits: Waits
    egress_needs_rules: ClassVar[bool] = True

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name in the VPC, or by id."""
        rows = [row for row in self._rows(filters(group_name=name, vpc_id=self.vpc())) if row["GroupName"] == name]
        return self._existing(rows[0]) if rows else self.read(name)

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        rows = [row for row in self._rows(filters(group_id=cid)) if row["GroupId"] == cid]
        return self._existing(rows[0]) if rows else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        found = [self._existing(row) for row in with_mark(self._rows(of_mark(mark)), mark)]
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
                VpcId=self.vpc(),
                TagSpecifications=marked("security-group", mark, Name=name),
            )
            return str(answer["GroupId"])

        try:
            cid = self.parts.create(mark, "security_group", name, create, id_of=str)
        except Refusal as error:
            if not error.is_one("InvalidGroup.Duplicate"):
                raise
            return self._wait_for(name, lambda: self.find_named(name)), False
        self.client.note_created(cid)
        return self._wait_for(name, lambda: self.read(cid)), True

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

        def attempt() -> bool | None:
            try:
                self.client.change(f"delete security group {cid}", "delete_security_group", GroupId=cid)
            except Refusal as error:
                if error.is_missing:
                    return True
                if not error.is_one("DependencyViolation") or self.users(cid):
                    raise
                return None
            return True

        self.waits.until(f"the deletion of security group {cid}", attempt, _NIC_S)
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

    def users(self, cid: str) -> list[str]:
        """Instances and other holders of network interfaces in this group."""
        rows = self.client.list_all(
            "list network interfaces", "describe_network_interfaces", "NetworkInterfaces", Filters=filters(group_id=cid)
        )
        held = [row for row in rows if any(one["GroupId"] == cid for one in row.get("Groups") or ())]
        return [str((row.get("Attachment") or {}).get("InstanceId") or row["NetworkInterfaceId"]) for row in held]

    def vpc(self) -> str:
        subnet = self.client.settings.default_subnet
        if subnet:
            rows = self.client.ask("read the subnet", "describe_subnets", SubnetIds=[subnet])["Subnets"]
            return str(rows[0]["VpcId"])
        rows = self.client.ask("find the default VPC", "describe_vpcs", Filters=filters(is_default="true"))["Vpcs"]
        if rows:
            return str(rows[0]["VpcId"])
        raise CpiError("which VPC is meant is not known", remedy="set properties.default_subnet")

    def _rows(self, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
        found = self.client.list_all(
            "list security groups", "describe_security_groups", "SecurityGroups", Filters=list(wanted)
        )
        return list(found)

    def _wait_for(self, name: str, look: Callable[[], ExistingSecurityGroup | None]) -> ExistingSecurityGroup:
        return self.waits.until(f"security group {name} being visible", look, self.client.settings.settle_s)

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark, cid = mark_of(row), str(row["GroupId"])
        ours = mark is not None and mark.director == self.client.director_uuid
        is_part = mark is not None and self.parts.is_ours(mark, "security_group", cid, str(row["GroupName"]))
        return ExistingSecurityGroup(cid, mark if ours and is_part else None, row, str(row["GroupName"]))


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
