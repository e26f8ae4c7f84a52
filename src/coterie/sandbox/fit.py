"""Whether one host may take one VM: sizes, state and the hard side of the policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.slotted import dataclass, field

POLICIES = ("soft-anti-affinity", "anti-affinity", "affinity", "soft-affinity", "host-affinity")
APART = {"soft-anti-affinity", "anti-affinity"}
TOGETHER = {"affinity", "soft-affinity"}
SOFT = {"soft-anti-affinity", "soft-affinity"}


class Candidate(NamedTuple):
    """A host and what is free on it."""

    name: str
    zone: str
    rack: str
    up: bool
    cpu: int
    ram_mb: int
    disk_mb: int


@dataclass(frozen=True, slots=True)
class Demand:
    cpu: int
    ram_mb: int
    disk_mb: int
    zone: str | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One group of the VM: its policy, how many members each host holds, and the hosts it allows (None: all)."""

    policy: str | None
    members: Mapping[str, int] = field(default_factory=dict)
    allowed: frozenset[str] | None = None


def obstacle(host: Candidate, demand: Demand, rules: Sequence[Rule]) -> str | None:
    """Why this host cannot take the VM: down, member, elsewhere, not allowed, cpu, ram, disk; None: it can."""
    if not host.up:
        return "down"
    for rule in rules:
        found = _forbidden(host, rule)
        if found:
            return found
    if host.cpu < demand.cpu:
        return "cpu"
    if host.ram_mb < demand.ram_mb:
        return "ram"
    return "disk" if host.disk_mb < demand.disk_mb else None


def _forbidden(host: Candidate, rule: Rule) -> str | None:
    if rule.policy == "anti-affinity" and rule.members.get(host.name):
        return "member"
    if rule.policy == "affinity" and any(rule.members.values()) and not rule.members.get(host.name):
        return "elsewhere"
    if rule.policy == "host-affinity" and rule.allowed is not None and host.name not in rule.allowed:
        return "not allowed"
    return None
