"""Rules of security groups in one form, however a manifest or a cloud writes them, and how two sets of them differ."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract.errors import InvalidCall
from coterie.slotted import dataclass, replace

_DIRECTIONS = {"in": "ingress", "out": "egress", "ingress": "ingress", "egress": "egress"}
_EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
# numbers and synonyms under which clouds list protocols
_PROTOCOLS = {
    **dict.fromkeys(("", "-1", "0", "all", "any", "none"), "any"),
    **dict.fromkeys(("1", "58", "icmp", "icmpv6", "ipv6-icmp"), "icmp"),
    "6": "tcp",
    "17": "udp",
}
WITH_PORTS = ("tcp", "udp")
_FIRST, _LAST = 1, 65535


@dataclass(frozen=True, slots=True)
class SecurityRule:
    """`ports` None: all of them; of icmp, its type and code. Exactly one of `cidr`, `group` and `other` is set.
    `group`: the security group at the other end, by its name, or inside a driver by its id. `other`: an end that no
    manifest can write, in the cloud's words: a person wrote the rule, and it was never requested."""

    direction: str
    protocol: str
    ports: tuple[int, int] | None = None
    cidr: str | None = None
    group: str | None = None
    family: str = "IPv4"
    other: str | None = None

    def __str__(self) -> str:
        ports = f" {_write_ports(self.ports)}" if self.ports else ""
        end = "to" if self.direction == "egress" else "from"
        far = f"group {self.group}" if self.group else self.other or self.cidr
        return f"{self.direction} {self.protocol}{ports} {end} {far}"

    def wire(self) -> dict[str, Any]:
        """In the words of manifests."""
        shown: dict[str, Any] = {"direction": self.direction, "protocol": self.protocol}
        if self.ports:
            shown["ports"] = _write_ports(self.ports)
        if self.other:
            return {**shown, "other": self.other}
        return {**shown, "group": self.group, "family": self.family} if self.group else {**shown, "cidr": self.cidr}

    def with_group(self, groups: Mapping[str, str]) -> SecurityRule:
        """The other end by another word: its id for its name, or its name for its id."""
        return replace(self, group=groups.get(self.group, self.group)) if self.group else self


@dataclass(frozen=True, slots=True)
class RuleChanges:
    come: tuple[SecurityRule, ...] = ()
    go: tuple[SecurityRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.come or self.go)

    def lines(self) -> list[str]:
        """One line for each rule. Traffic with a group is two rules, one of each family, and one line."""
        lines = [*(f"+ {rule}" for rule in self.come), *(f"- {rule}" for rule in self.go)]
        return list(dict.fromkeys(lines))


EVERYTHING_OUT = tuple(SecurityRule("egress", "any", None, cidr, None, family) for family, cidr in _EVERYWHERE.items())


def compare_rules(present: Iterable[SecurityRule], requested: Iterable[SecurityRule]) -> RuleChanges:
    """What has to come and to go. Clouds let everything out of a new group, some of them by rules of their own: these
    count as requested where no egress rule is."""
    has, wanted = list(dict.fromkeys(present)), list(dict.fromkeys(requested))
    tolerated = () if any(rule.direction == "egress" for rule in wanted) else EVERYTHING_OUT
    return RuleChanges(
        tuple(rule for rule in wanted if rule not in has),
        tuple(rule for rule in has if rule not in wanted and rule not in tolerated),
    )


def read_rules(rules: Iterable[Mapping[str, Any]]) -> tuple[SecurityRule, ...]:
    """Rules in the words of manifests. Traffic with a group is of both families where the rule names none."""
    return tuple(one for rule in rules for one in _read_rule(rule))


def make_rule(
    direction: str,
    protocol: object,
    ports: tuple[object, object] = (None, None),
    cidr: str | None = None,
    group: str | None = None,
    family: str | None = None,
    other: str | None = None,
) -> SecurityRule:
    """A rule as a cloud lists it. No protocol is any; no other end is everywhere."""
    if direction not in _DIRECTIONS:
        raise InvalidCall(f"a security rule has direction {direction!r}", remedy="use ingress or egress")
    word = str(protocol or "").lower()
    protocol = _PROTOCOLS.get(word, word)
    if group or other:
        ports_of_both = _ports(protocol, *ports)
        return SecurityRule(_DIRECTIONS[direction], protocol, ports_of_both, None, group, family or "IPv4", other)
    network = _read_cidr(cidr or _EVERYWHERE[family or "IPv4"])
    return SecurityRule(
        _DIRECTIONS[direction], protocol, _ports(protocol, *ports), str(network), None, f"IPv{network.version}"
    )


def _read_rule(rule: Mapping[str, Any]) -> Iterable[SecurityRule]:
    word = str(rule.get("protocol") or "tcp").lower()
    protocol = _PROTOCOLS.get(word, word)
    ports = _read_ports(rule.get("ports")) if protocol in (*WITH_PORTS, "icmp") else (None, None)
    direction, group = str(rule.get("direction") or "ingress"), rule.get("group")
    families = [str(rule["family"])] if rule.get("family") else ["IPv4", "IPv6"] if group else [None]
    for family in families:
        end = rule.get("cidr"), str(group) if group else None
        yield make_rule(direction, protocol, ports, *end, family, rule.get("other"))


def _read_ports(ports: object) -> tuple[int | None, int | None]:
    """Written like 80 or 8000-8080; all of them where the rule names none."""
    text = str(ports or "")
    low, _, high = text.partition("-")
    if text and (not low.strip().isdecimal() or (high and not high.strip().isdecimal())):
        raise InvalidCall(f"a security rule has ports {text!r}", remedy="write them like 80 or 8000-8080")
    return (int(low), int(high or low)) if text else (None, None)


def _ports(protocol: str, first: object, last: object) -> tuple[int, int] | None:
    """Clouds write all ports as nothing, as -1 or as the full range; protocols without ports have none."""
    if first in (None, "", -1, "-1") or protocol == "any":
        return None
    low = int(str(first))
    high = low if last in (None, "") else int(str(last))
    if protocol in WITH_PORTS and low <= _FIRST and high >= _LAST:
        return None
    return low, high


def _write_ports(ports: tuple[int, int]) -> str:
    return str(ports[0]) if ports[0] == ports[1] else f"{ports[0]}-{ports[1]}"


def _read_cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidCall(f"a security rule has cidr {text!r}", remedy="write it like 10.0.0.0/8") from None
