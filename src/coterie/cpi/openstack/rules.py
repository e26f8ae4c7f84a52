"""Rules of security groups: as Neutron takes them, and whether a group has one already. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall
from coterie.cpi.openstack.api import Row

_DIRECTIONS = {"in": "ingress", "out": "egress"}
_FIELDS = ("direction", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "ethertype")


def rule_body(guard: str, rule: Mapping[str, Any]) -> Row:
    """Protocol `all` or none means every one; a cidr of the newer family makes a rule of that family."""
    direction = str(rule.get("direction", "in"))
    if direction not in _DIRECTIONS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use in or out")
    protocol = str(rule.get("protocol") or "tcp").lower()
    cidr = _cidr(str(rule.get("cidr") or "0.0.0.0/0"))
    body: Row = {
        "security_group_id": guard,
        "direction": _DIRECTIONS[direction],
        "protocol": None if protocol == "all" else protocol,
        "remote_ip_prefix": str(cidr),
        "ethertype": f"IPv{cidr.version}",
        "port_range_min": None,
        "port_range_max": None,
    }
    if protocol in ("tcp", "udp"):
        low, high = _ports(str(rule.get("ports") or "1-65535"))
        body |= {"port_range_min": low, "port_range_max": high}
    return body


def has_rule(guard: Row, body: Row) -> bool:
    """Whether a listed group has what this rule would add. Neutron writes `everywhere` as nothing at all."""
    return any(_same(one, body) for one in guard.get("security_group_rules") or ())


def _same(listed: Row, body: Row) -> bool:
    everywhere = ("0.0.0.0/0", "::/0", None)
    for field in _FIELDS:
        has, wanted = listed.get(field), body[field]
        if (
            field == "remote_ip_prefix"
            and has in everywhere
            and wanted in everywhere
            and not listed.get("remote_group_id")
        ):
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
