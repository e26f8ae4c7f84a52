"""Security groups as Neutron holds them, and their rules. Neutron takes any number of one name, so one writer at a time
creates those of a name; a name that two have is refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, SecurityGroup
from coterie.cpi.drivers.openstack.client import CONFLICT, MISSING, Client, Refusal, Row
from coterie.cpi.drivers.openstack.rows import Rows, age, description, ids, is_uuid, mark_of_description
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.security_groups import ExistingSecurityGroup, read_ports

_DIRECTIONS = {"in": "ingress", "out": "egress", "ingress": "ingress", "egress": "egress"}
_EVERY = ("any", "all")
_EVERYWHERE = ("0.0.0.0/0", "::/0", None)


@dataclass(frozen=True, slots=True)
class NeutronSecurityGroups:
    """Fills the kit's `SecurityGroupCloud`."""

    client: Client
    rows: Rows
    writer: SingleWriter[Refusal]

    def find_named(self, name: str) -> ExistingSecurityGroup | None:
        """By name or id, in this project."""
        if is_uuid(name):
            return self.read(name)
        rows = self._list_named(name)
        if len(rows) > 1:
            raise InvalidCall(
                f"{len(rows)} security groups are named {name!r}",
                why=", ".join(ids(rows[:5])),
                remedy="name it by its id, or rename or delete the others",
            )
        return self._existing(rows[0]) if rows else None

    def read(self, cid: str) -> ExistingSecurityGroup | None:
        row = self.rows.read("security_group", cid)
        return self._existing(row) if row else None

    def list_marked(self, mark: Mark) -> list[ExistingSecurityGroup]:
        return [self._existing(row) for row in self.rows.list_marked("security_group", mark)]

    def require_rules(self, request: SecurityGroup) -> None:
        for rule in request.rules:
            rule_bodies(rule, {str(rule.get("group")): ""})

    def create(self, name: str, mark: Mark) -> tuple[ExistingSecurityGroup, bool]:
        body = {"name": name, "description": description(mark)}
        change = self.rows.create_change("security_group", mark, body)
        created = self.writer.submit("security_group", name, change)
        try:
            found = self.read(created.cid)
        except CpiError:
            if not created.new:
                raise
            found = None  # its row only spares requests for rules that it has
        return found or ExistingSecurityGroup(created.cid, mark), created.new

    def create_once(self, change: Json, hold: Hold) -> Created:
        """Applies a change of `create` as the only writer of its name: a security group is one by its name, not by its
        mark."""
        mark, body = Mark.of_wire(change["mark"]), change["body"]
        known = self.find_named(str(body["name"]))  # refuses a name that two got meanwhile
        if known:
            return Created(known.id, False)
        return create_if_absent(
            lambda: ids(self._list_named(str(body["name"]))),
            lambda: str(self.rows.create("security_group", mark, body)["id"]),
            lambda second: self.rows.delete("security_group", second),
            hold,
        )

    def add_missing_rules(self, found: ExistingSecurityGroup, request: SecurityGroup, ids: Mapping[str, str]) -> None:
        for rule in request.rules:
            for body in rule_bodies(rule, ids):
                if not has_rule(found.row, body):
                    self._add_rule({**body, "security_group_id": found.id})

    def delete(self, cid: str) -> None:
        self.rows.delete("security_group", cid)

    def delete_if_unused(self, cid: str) -> None:
        self.rows.delete("security_group", cid, tolerated=(MISSING, CONFLICT))

    def _list_named(self, name: str) -> list[Row]:
        return sorted(self.rows.list_all("security_group", name=name, project_id=self.client.project), key=age)

    def _existing(self, row: Row) -> ExistingSecurityGroup:
        mark = mark_of_description(row.get("description"))
        ours = mark if mark and mark.director == self.client.director_uuid else None
        return ExistingSecurityGroup(str(row["id"]), ours, row)

    def _add_rule(self, body: Row) -> None:
        try:
            self.client.send("POST", "add a rule", "network", "/security-group-rules", {"security_group_rule": body})
        except Refusal as error:
            if error.status != CONFLICT or error.is_quota:  # it has the rule already
                raise


def rule_bodies(rule: Mapping[str, Any], groups: Mapping[str, str]) -> list[Row]:
    """A rule as Neutron takes it; `groups`: ids of the security groups that rules name, by name. Traffic with a group
    is of both families."""
    name = rule.get("group")
    if name:
        return [_body(rule, family, None, groups[str(name)]) for family in ("IPv4", "IPv6")]
    cidr = _cidr(str(rule.get("cidr") or "0.0.0.0/0"))
    return [_body(rule, f"IPv{cidr.version}", str(cidr), None)]


def has_rule(group: Mapping[str, Any], body: Row) -> bool:
    """Whether a listed group has what this rule would add."""
    return any(_is_same(one, body) for one in group.get("security_group_rules") or ())


def _body(rule: Mapping[str, Any], family: str, cidr: str | None, group: str | None) -> Row:
    direction, protocol = str(rule.get("direction", "in")), str(rule.get("protocol") or "tcp").lower()
    if direction not in _DIRECTIONS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use ingress or egress")
    low, high = read_ports(rule) if protocol in ("tcp", "udp") else (None, None)
    return {
        "direction": _DIRECTIONS[direction],
        "protocol": None if protocol in _EVERY else protocol,
        "ethertype": family,
        "port_range_min": low,
        "port_range_max": high,
        "remote_ip_prefix": cidr,
        "remote_group_id": group,
    }


def _is_same(listed: Row, body: Row) -> bool:
    """Some Neutrons write `everywhere` as nothing at all."""
    has, wanted = listed.get("remote_ip_prefix"), body["remote_ip_prefix"]
    same_range = has == wanted or (has in _EVERYWHERE and wanted in _EVERYWHERE)
    return same_range and all(listed.get(key) == body[key] for key in body if key != "remote_ip_prefix")


def _cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidCall(f"a security rule has cidr {text!r}", remedy="write it like 10.0.0.0/8") from None
