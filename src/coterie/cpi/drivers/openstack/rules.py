"""Rules of security groups: as Neutron takes them, and whether a group has one already. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.openstack.api import Row

_DIRECTIONS = {"in": "ingress", "out": "egress", "ingress": "ingress", "egress": "egress"}
_EVERY = ("any", "all")
_EVERYWHERE = ("0.0.0.0/0", "::/0", None)
_FIELDS = (
    *("direction", "protocol", "ethertype", "port_range_min", "port_range_max"),
    *("remote_ip_prefix", "remote_group_id"),
)


def rule_bodies(rule: Mapping[str, Any], groups: Mapping[str, str]) -> list[Row]:
    """What Neutron is asked for; `groups`: ids of the security groups that rules name, by name. Traffic with a group
    is of both families."""
    name = rule.get("group")
    if name:
        return [_body(rule, family, None, groups[str(name)]) for family in ("IPv4", "IPv6")]
    cidr = _cidr(str(rule.get("cidr") or "0.0.0.0/0"))
    return [_body(rule, f"IPv{cidr.version}", str(cidr), None)]


def has_rule(guard: Row, body: Row) -> bool:
    """Whether a listed group has what this rule would add. Some Neutrons write `everywhere` as nothing at all."""
    return any(_same(one, body) for one in guard.get("security_group_rules") or ())


def _body(rule: Mapping[str, Any], family: str, cidr: str | None, group: str | None) -> Row:
    direction, protocol = str(rule.get("direction", "in")), str(rule.get("protocol") or "tcp").lower()
    if direction not in _DIRECTIONS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use ingress or egress")
    low, high = _ports(str(rule.get("ports") or "1-65535")) if protocol in ("tcp", "udp") else (None, None)
    return {
        "direction": _DIRECTIONS[direction],
        "protocol": None if protocol in _EVERY else protocol,
        "ethertype": family,
        "port_range_min": low,
        "port_range_max": high,
        "remote_ip_prefix": cidr,
        "remote_group_id": group,
    }


def _same(listed: Row, body: Row) -> bool:
    for field in _FIELDS:
        has, wanted = listed.get(field), body[field]
        if field == "remote_ip_prefix" and has in _EVERYWHERE and wanted in _EVERYWHERE:
            continue
        if has != wanted:
            return False
    return True


def _cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidCall(f"a security rule has cidr {text!r}", remedy="write it like 10.0.0.0/8") from None


def _ports(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not low.strip().isdecimal() or (high and not high.strip().isdecimal()):
        raise InvalidCall(f"a security rule has ports {text!r}", remedy="write them like 80 or 8000-8080")
    return int(low), int(high or low)
