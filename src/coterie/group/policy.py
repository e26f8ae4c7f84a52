"""The five placement policies: what each promises, and whether a set of hosts keeps the promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

PROMISES: Mapping[str, str] = {
    "soft-anti-affinity": "spread over hosts as evenly as capacity allows",
    "anti-affinity": "no two nodes on one host",
    "affinity": "all nodes on one host",
    "soft-affinity": "on as few hosts as capacity allows",
    "host-affinity": "only on the hosts that the administrator named",
}


def hosts_needed(policy: str | None, members: int) -> int:
    """How many hosts a group of this size cannot do without."""
    return members if policy == "anti-affinity" else min(members, 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    holds: bool
    why: str


def judge(policy: str | None, hosts: Collection[str], available: int | None) -> Verdict:
    """Whether members on `hosts` (one entry each) keep the promise, given so many usable hosts (None: unknown)."""
    if policy is None:
        return Verdict(True, "no placement was promised")
    per_host = Counter(hosts)
    match policy:
        case "anti-affinity":
            return _apart(per_host)
        case "soft-anti-affinity":
            return _even(per_host, available)
        case "affinity":
            return _together(per_host)
    return Verdict(True, f"{len(per_host)} hosts hold {len(hosts)} nodes")


def _apart(per_host: Counter[str]) -> Verdict:
    shared = sorted(host for host, count in per_host.items() if count > 1)
    if shared:
        return Verdict(False, f"nodes share a host: {', '.join(shared)}")
    return Verdict(True, f"{per_host.total()} nodes on {len(per_host)} hosts")


def _even(per_host: Counter[str], available: int | None) -> Verdict:
    if not per_host:
        return Verdict(True, "no nodes yet")
    most, used = max(per_host.values()), len(per_host)
    reachable = min(available or used, per_host.total())
    if used < reachable and most > 1:
        return Verdict(False, f"only {used} of {reachable} hosts are used, up to {most} nodes on one")
    return Verdict(True, f"{per_host.total()} nodes on {used} hosts, at most {most} on one")


def _together(per_host: Counter[str]) -> Verdict:
    if len(per_host) > 1:
        return Verdict(False, f"nodes are on {len(per_host)} hosts: {', '.join(sorted(per_host))}")
    return Verdict(True, f"all on {next(iter(per_host), 'no host yet')}")
