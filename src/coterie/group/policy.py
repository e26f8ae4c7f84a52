"""The five placement policies: what each promises, and whether a set of hosts keeps the promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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


_BY_DOMAIN: Mapping[str, str] = {
    "anti-affinity": "no two nodes on one host, shown by different {word}s",
    "soft-anti-affinity": "spread over {word}s as evenly as capacity allows; nodes in one {word} may share a host",
}


def promise(policy: str | None, domain: str | None = None) -> str:
    """What the policy guarantees. `domain`: the cloud's word for what it shows in place of hosts."""
    by_domain = _BY_DOMAIN.get(policy or "") if domain else None
    return by_domain.format(word=domain) if by_domain else PROMISES.get(policy or "", "none")


@dataclass(frozen=True, slots=True)
class Verdict:
    holds: bool | None  # None: unknown
    why: str


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is known of a cloud's hosts. `usable`: how many a group may be on; `allowed`: the only ones that the
    administrator named; `vacatable`: those whose nodes would fit on the others. None: unknown."""

    usable: int | None = None
    allowed: frozenset[str] | None = None
    vacatable: Sequence[str] | None = None


def judge(policy: str | None, hosts: Collection[str], known: Hosts) -> Verdict:
    """Whether members on `hosts` (one entry each) keep the promise."""
    if policy is None:
        return Verdict(True, "no placement was promised")
    per_host = Counter(hosts)
    if not per_host:
        return Verdict(True, "no nodes yet")
    match policy:
        case "anti-affinity":
            return _apart(per_host)
        case "soft-anti-affinity":
            return _even(per_host, known.usable)
        case "affinity":
            return _together(per_host)
        case "soft-affinity":
            return _close(per_host, known.vacatable)
        case "host-affinity":
            return _on_named_hosts(per_host, known.allowed)
    return Verdict(None, f"{policy} is not known to this release")


def _apart(per_host: Counter[str]) -> Verdict:
    shared = sorted(host for host, count in per_host.items() if count > 1)
    if shared:
        return Verdict(False, f"nodes share a host: {', '.join(shared)}")
    return Verdict(True, _spread(per_host))


def _even(per_host: Counter[str], available: int | None) -> Verdict:
    most, least, used = max(per_host.values()), min(per_host.values()), len(per_host)
    reachable = min(available or used, per_host.total())
    if used < reachable and most > 1:
        return Verdict(False, f"only {used} of {reachable} hosts are used, up to {most} nodes on one")
    if most > least + 1:
        return Verdict(False, f"{most} nodes on one host and {least} on another; fine only if the others are full")
    if used == 1 and most > 1 and available is None:
        return Verdict(None, f"all {most} nodes are on one host, and the cloud does not say whether it has others")
    return Verdict(True, f"{_spread(per_host)}, at most {most} on one")


def _together(per_host: Counter[str]) -> Verdict:
    if len(per_host) > 1:
        return Verdict(False, f"nodes are on {len(per_host)} hosts: {', '.join(sorted(per_host))}")
    return Verdict(True, f"all on {next(iter(per_host))}")


def _close(per_host: Counter[str], vacatable: Sequence[str] | None) -> Verdict:
    if len(per_host) == 1:
        return Verdict(True, f"all on {next(iter(per_host))}")
    spread = f"{per_host.total()} nodes are on {len(per_host)} hosts"
    if vacatable is None:
        return Verdict(None, f"{spread}; fine only if they do not fit on fewer, which the cloud does not say")
    if vacatable:
        return Verdict(False, f"{spread}, although the others have room for those on {vacatable[0]}")
    return Verdict(True, f"{spread}, and none of these has room for another's")


def _on_named_hosts(per_host: Counter[str], allowed: frozenset[str] | None) -> Verdict:
    if allowed is None:
        return Verdict(None, "no hosts were named for the group, or the cloud does not tell which")
    strays = sorted(per_host.keys() - allowed)
    if strays:
        return Verdict(False, f"nodes are on hosts that are not among the named ones: {', '.join(strays)}")
    return Verdict(True, f"{per_host.total()} nodes on {len(per_host)} of {len(allowed)} named hosts")


def judge_domains(policy: str | None, domains: Collection[str], word: str) -> Verdict:
    """Whether members in these failure domains (one entry each) keep the promise, where no hosts are shown: those in
    different domains are on different hosts, of those in one nothing is known."""
    per_domain = Counter(domains)
    shared = sorted(domain for domain, count in per_domain.items() if count > 1)
    spread = f"{_count(per_domain.total(), 'node')} in {_count(len(per_domain), word)}"
    match policy:
        case "anti-affinity" if shared:
            names = ", ".join(shared)
            return Verdict(None, f"nodes are in one {word}: {names}; that does not tell whether they share a host")
        case "anti-affinity":
            return Verdict(True, f"{spread}; different {word}s are on different hosts")
        case "soft-anti-affinity" if max(per_domain.values()) > min(per_domain.values()) + 1:
            most, least = max(per_domain.values()), min(per_domain.values())
            return Verdict(False, f"{most} nodes in one {word} and {least} in another; fine only if others are full")
        case "soft-anti-affinity" if len(per_domain) == 1 and shared:
            return Verdict(None, f"{spread}, and the cloud does not say whether it has others")
        case "soft-anti-affinity":
            return Verdict(True, f"{spread}, at most {max(per_domain.values())} in one")
    return Verdict(None, f"the cloud shows {word}s in place of hosts, which say nothing about {policy}")


def nodes_to_recreate(policy: str | None, by_host: Mapping[str, Sequence[str]], known: Hosts) -> list[str]:
    """The nodes to make anew so that the promise can hold: the fewest, as far as hosts are known."""
    fullest_first = sorted(by_host.items(), key=lambda item: (-len(item[1]), item[0]))
    match policy:
        case "anti-affinity":
            found = [node for _, nodes in fullest_first for node in nodes[1:]]
        case "soft-anti-affinity":
            found = _surplus([nodes for _, nodes in fullest_first], known.usable)
        case "affinity":
            found = [node for _, nodes in fullest_first[1:] for node in nodes]
        case "soft-affinity":
            found = list(by_host[known.vacatable[0]]) if known.vacatable else []
        case "host-affinity" if known.allowed is not None:
            found = [node for host, nodes in fullest_first for node in nodes if host not in known.allowed]
        case _:
            found = []
    return sorted(found, key=by_index)


def _surplus(fullest_first: Sequence[Sequence[str]], available: int | None) -> list[str]:
    """What each host has beyond an even share; one that is alone, as far as we know, has all but one too many."""
    total = sum(len(nodes) for nodes in fullest_first)
    hosts = max(available or 0, len(fullest_first))
    if hosts == 1 and available is None:
        hosts = total
    share, more = divmod(total, hosts) if hosts else (0, 0)
    rooms = [share + (1 if number < more else 0) for number in range(len(fullest_first))]
    return [node for nodes, room in zip(fullest_first, rooms, strict=True) for node in nodes[room:]]


def _spread(per_host: Counter[str]) -> str:
    return f"{_count(per_host.total(), 'node')} on {_count(len(per_host), 'host')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def by_index(node: str) -> tuple[str, int]:
    """A key to sort names like broker/2 by: before broker/10."""
    group, _, index = node.rpartition("/")
    return (group, int(index)) if index.isdecimal() else (node, -1)
