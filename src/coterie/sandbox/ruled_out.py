"""The words for why no host fits: the hosts of each zone counted by what ruled them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coterie.sandbox.errors import NoHost
from coterie.sandbox.fit import Candidate, Demand, Rule, obstacle

_FIELDS = {"cpu": "cpu", "ram": "ram_mb", "disk": "disk_mb"}
_WORDS = {
    "down": ("{n} is down", "{n} are down"),
    "member": ("{n} already holds a member", "{n} already hold a member"),
    "elsewhere": ("{n} does not hold the group's members", "{n} do not hold the group's members"),
    "not allowed": ("{n} is not among the group's hosts", "{n} are not among the group's hosts"),
}


def no_host(hosts: Sequence[Candidate], demand: Demand, rules: Sequence[Rule]) -> NoHost:
    obstacles = {host: obstacle(host, demand, rules) or "" for host in hosts}
    zones = sorted({host.zone for host in hosts})
    words = [_zone_words(zone, {h: o for h, o in obstacles.items() if h.zone == zone}, demand) for zone in zones]
    return NoHost(
        f"no host fits a VM of {demand.cpu} cpu, {demand.ram_mb} MB ram, {demand.disk_mb} MB disk",
        why="; ".join(words),
        remedy="free or add hosts, ask for a smaller VM or fewer of them, or use a soft policy",
        details={"zone": demand.zone, "hosts": {host.name: reason for host, reason in obstacles.items()}},
    )


def _zone_words(zone: str, obstacles: dict[Candidate, str], demand: Demand) -> str:
    reasons = Counter(obstacles.values())
    words = [
        _reason_words(reason, [host for host in obstacles if obstacles[host] == reason], demand)
        for reason in sorted(reasons, key=lambda reason: (-reasons[reason], reason))
    ]
    hosts = "1 host" if len(obstacles) == 1 else f"{len(obstacles)} hosts"
    return f"{zone}: {hosts}: {', '.join(words)}"


def _reason_words(reason: str, hosts: list[Candidate], demand: Demand) -> str:
    one = len(hosts) == 1
    if reason not in _FIELDS:
        return _WORDS[reason][0 if one else 1].format(n=len(hosts))
    lacks, has = ("lacks", "has") if one else ("lack", "have at most")
    most = max(getattr(host, _FIELDS[reason]) for host in hosts)
    return f"{len(hosts)} {lacks} {reason} (needs {getattr(demand, _FIELDS[reason])}, {has} {most})"
