"""Rules of security groups: the call that adds one, and whether a group has it already. Nothing is called here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.cloudstack.api import Row

_DIRECTIONS = {"ingress": "authorizeSecurityGroupIngress", "egress": "authorizeSecurityGroupEgress"}
_LISTED = {"authorizeSecurityGroupIngress": "ingressrule", "authorizeSecurityGroupEgress": "egressrule"}


def rule_call(guard: str, rule: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The command and its parameters."""
    direction = str(rule.get("direction", "ingress"))
    if direction not in _DIRECTIONS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use ingress or egress")
    if rule.get("group"):
        raise InvalidCall(
            f"a security rule names the group {rule['group']!r} at its other end",
            why="this driver makes rules of addresses only",
            remedy="give the addresses as cidr, or make the security group yourself: one that exists is used as it is",
        )
    low, _, high = str(rule.get("ports") or "1-65535").partition("-")
    protocol = str(rule.get("protocol") or "tcp").lower().replace("any", "all")
    ports = {"startport": int(low), "endport": int(high or low)} if protocol in ("tcp", "udp") else {}
    cidr = str(rule.get("cidr") or "0.0.0.0/0")
    return _DIRECTIONS[direction], {"securitygroupid": guard, "protocol": protocol, "cidrlist": [cidr], **ports}


def has_rule(guard: Row, command: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a listed group has what this call would add."""
    (cidr,) = parameters["cidrlist"]
    wanted = (parameters["protocol"], cidr, parameters.get("startport"), parameters.get("endport"))
    return any(wanted == _listed(row) for row in guard.get(_LISTED[command]) or ())


def _listed(row: Row) -> tuple[str, str | None, int | None, int | None]:
    """Ports of protocols that have none are listed by some releases, and mean nothing."""
    protocol = str(row.get("protocol")).lower()
    ports = (row.get("startport"), row.get("endport")) if protocol in ("tcp", "udp") else (None, None)
    return protocol, row.get("cidr"), *ports
