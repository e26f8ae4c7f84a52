"""Where a VM goes: of the hosts that fit, the one its groups like best.

Pure: no row, no clock and no chance enter here, so the same picture always gives the same host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coterie.sandbox.fit import APART, TOGETHER, Candidate, Demand, Rule, obstacle
from coterie.sandbox.ruled_out import no_host


def place(hosts: Sequence[Candidate], demand: Demand, rules: Sequence[Rule] = ()) -> Candidate:
    """Fewest members of the group (apart) or most (together), then the emptiest rack, most free ram, first name."""
    fitting = [host for host in hosts if obstacle(host, demand, rules) is None]
    if not fitting:
        raise no_host(hosts, demand, rules)
    if not rules:
        return min(fitting, key=lambda host: (-host.ram_mb, host.name))
    crowds = [_rack_members(hosts, rule) for rule in rules]
    return min(fitting, key=lambda host: (*_liking(host, rules, crowds), -host.ram_mb, host.name))


def _rack_members(hosts: Sequence[Candidate], rule: Rule) -> Counter[str]:
    crowd: Counter[str] = Counter()
    if rule.policy in APART:
        for host in hosts:
            crowd[host.rack] += rule.members.get(host.name, 0)
    return crowd


def _liking(host: Candidate, rules: Sequence[Rule], crowds: Sequence[Counter[str]]) -> tuple[int, int]:
    """Lower is better: first by host, then by rack."""
    by_host = by_rack = 0
    for rule, crowd in zip(rules, crowds, strict=True):
        if rule.policy in APART:
            by_host += rule.members.get(host.name, 0)
            by_rack += crowd[host.rack]
        elif rule.policy in TOGETHER:
            by_host -= rule.members.get(host.name, 0)
    return by_host, by_rack
