"""Does a group keep its promise, and what would a failure take down? Pure: hosts in, findings out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.group.order import by_index
from coterie.group.policy import PROMISES, judge, misplaced


@dataclass(frozen=True, slots=True)
class Member:
    node: str
    host: str | None


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    az: str
    rack: str | None


def audit(policy: str | None, members: Sequence[Member], hosts: Sequence[Host], zones: Sequence[str]) -> dict[str, Any]:
    """`hosts`: those of the cloud, as far as it shows them; `zones`: where the group may be. `mend`: the nodes that a
    rolling recreate should place anew."""
    known = {host.name: host for host in hosts}
    placed = [member for member in members if member.host]
    usable = [host for host in hosts if not zones or host.az in zones]
    verdict = judge(policy, [member.host or "" for member in placed], len(usable) or None)
    by_host = _by(placed, lambda member: member.host or "")
    unplaced = sorted(member.node for member in members if not member.host)
    return {
        "policy": policy,
        "promise": PROMISES.get(policy or "", "none"),
        "holds": verdict.holds if not unplaced or not verdict.holds else None,
        "why": f"the cloud does not say where {', '.join(unplaced)} are" if unplaced and verdict.holds else verdict.why,
        "mend": [] if verdict.holds else misplaced(policy, by_host, len(usable) or None),
        "hosts": by_host,
        "worst_host": _worst(by_host),
        "worst_rack": _worst(_by(placed, lambda member: _rack(known, member))),
    }


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
