"""Does a group keep its promise, and what would a failure take down? Pure: hosts in, findings out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.group.policy import Hosts, Verdict, by_index, judge, judge_domains, nodes_to_recreate, promise


@dataclass(frozen=True, slots=True)
class Member:
    """`takes`: what its VM needs of a host; `down`: what is wrong with the VM, if it does not run; `domain`: the
    failure domain that the cloud shows it in; `update_domain`: with whose members it goes down for maintenance."""

    node: str
    host: str | None
    takes: Room | None = None
    down: str | None = None
    domain: str | None = None
    update_domain: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    az: str
    rack: str | None
    free: Room | None = None


def audit(
    policy: str | None,
    members: Sequence[Member],
    hosts: Sequence[Host],
    zones: Sequence[str],
    allowed: Collection[str] | None = None,
    domain_word: str | None = None,
) -> dict[str, Any]:
    """`hosts`: those of the cloud, as far as it shows them; `zones`: where the group may be; `allowed`: the only hosts
    that it may be on, None where the cloud names none; `domain_word`: what the cloud calls the failure domains that it
    shows for this policy: where hosts are not shown, members are judged by them. `mend`: the nodes that a rolling
    recreate should place anew."""
    known = {host.name: host for host in hosts}
    placed = [member for member in members if member.host]
    by_host, seen = _by(placed, lambda member: member.host or ""), _hosts(policy, placed, known, zones, allowed)
    unplaced = sorted(member.node for member in members if not member.host and not member.down)
    if domain_word and unplaced:
        return _audit_domains(policy, members, domain_word)
    verdict = judge(policy, [member.host or "" for member in placed], seen)
    alive = [member for member in placed if not member.down]
    return {
        "policy": policy,
        "promise": promise(policy, domain_word),
        "holds": verdict.holds if not unplaced or not verdict.holds else None,
        "why": f"the cloud does not say where {', '.join(unplaced)} are" if unplaced and verdict.holds else verdict.why,
        "mend": [] if verdict.holds else nodes_to_recreate(policy, by_host, seen),
        "down": {member.node: member.down for member in members if member.down},
        "hosts": by_host,
        "domains": _by(members, lambda member: member.domain or ""),
        "update_domains": _by(members, lambda member: member.update_domain or ""),
        "domain_word": domain_word,
        "worst_host": _worst(_by(alive, lambda member: member.host or "")),
        "worst_rack": _worst(_by(alive, lambda member: _rack(known, member))),
        "worst_domain": _worst(_by(alive, lambda member: member.domain or "")),
    }


def _audit_domains(policy: str | None, members: Sequence[Member], word: str) -> dict[str, Any]:
    """Of members whose hosts are not shown."""
    known = [member for member in members if member.domain]
    unknown = sorted(member.node for member in members if not member.domain and not member.down)
    verdict = judge_domains(policy, [member.domain or "" for member in known], word) if known else Verdict(None, "")
    if unknown and verdict.holds is not False:
        verdict = Verdict(None, f"the cloud does not say in which {word} {', '.join(unknown)} are")
    by_domain = _by(known, lambda member: member.domain or "")
    return {
        "policy": policy,
        "promise": promise(policy, word),
        "holds": verdict.holds,
        "why": verdict.why,
        "mend": nodes_to_recreate(policy, by_domain, Hosts()) if verdict.holds is False else [],
        "down": {member.node: member.down for member in members if member.down},
        "hosts": _by(members, lambda member: member.host or ""),
        "domains": by_domain,
        "update_domains": _by(members, lambda member: member.update_domain or ""),
        "domain_word": word,
        "worst_host": None,
        "worst_rack": None,
        "worst_domain": _worst(_by([one for one in known if not one.down], lambda one: one.domain or "")),
    }


def _hosts(
    policy: str | None,
    placed: Sequence[Member],
    known: Mapping[str, Host],
    zones: Sequence[str],
    allowed: Collection[str] | None,
) -> Hosts:
    usable = sum(1 for host in known.values() if not zones or host.az in zones)
    named = None if allowed is None else frozenset(allowed)
    return Hosts(usable or None, named, _vacatable(placed, known) if policy == "soft-affinity" else None)


def _vacatable(placed: Sequence[Member], known: Mapping[str, Host]) -> list[str] | None:
    taken: dict[str, list[Room | None]] = defaultdict(list)
    for member in placed:
        taken[member.host or ""].append(member.takes)
    return vacatable(taken, {name: known[name].free if name in known else None for name in taken})


def _rack(known: Mapping[str, Host], member: Member) -> str:
    host = known.get(member.host or "")
    return host.rack or "" if host else ""


def _by(members: Sequence[Member], key: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for member in members:
        if key(member):
            found[key(member)].append(member.node)
    return {name: sorted(nodes, key=by_index) for name, nodes in sorted(found.items())}


def _worst(by: Mapping[str, list[str]]) -> dict[str, Any] | None:
    """The failure that would take down most nodes of the group."""
    if not by:
        return None
    name = max(sorted(by), key=lambda key: len(by[key]))
    return {"name": name, "nodes": by[name]}


@dataclass(frozen=True, slots=True)
class Room:
    """What is free, or taken."""

    cpu: float
    ram_mb: float

    def holds(self, other: Room) -> bool:
        return self.cpu >= other.cpu and self.ram_mb >= other.ram_mb

    def without(self, other: Room) -> Room:
        return Room(self.cpu - other.cpu, self.ram_mb - other.ram_mb)


def vacatable(taken: Mapping[str, Sequence[Room | None]], free: Mapping[str, Room | None]) -> list[str] | None:
    """The hosts whose nodes would each time all fit on the others that are in use, found by trying one after the other;
    None: unknown."""
    if None in free.values() or any(None in rooms for rooms in taken.values()) or not taken.keys() <= free.keys():
        return None
    emptiest_first = sorted(taken, key=lambda host: (len(taken[host]), host))
    return [host for host in emptiest_first if _fit(taken[host], {n: free[n] for n in taken if n != host})]


def _fit(rooms: Sequence[Room | None], free: Mapping[str, Room | None]) -> bool:
    left = {name: room for name, room in sorted(free.items()) if room}
    for room in sorted((one for one in rooms if one), key=lambda one: (-one.ram_mb, -one.cpu)):
        host = next((name for name in left if left[name].holds(room)), None)
        if host is None:
            return False
        left[host] = left[host].without(room)
    return True


REPAIR = "`coterie groups repair NAME`"
ANEW = "deploy again, which makes the group and its nodes anew"
IN_PLACE = f"{REPAIR}, or deploy again"


def remedy(state: str, *, moves_members: bool, adopted: bool, other_policy: bool = False) -> str:
    """`moves_members`: living VMs can join a group that is made again. `other_policy`: the cloud's is not the one that
    was promised; a policy is fixed for life, so only another group has the right one."""
    if state not in ("missing", "drifted"):
        return ""
    if adopted and state == "drifted" and moves_members and not other_policy:
        return REPAIR
    if adopted:
        return "have the operator restore it, or change placement in the manifest; then deploy again"
    if state == "missing":
        return IN_PLACE if moves_members else ANEW
    if other_policy:
        return ANEW if not moves_members else "deploy again, which makes the group anew"
    return REPAIR
