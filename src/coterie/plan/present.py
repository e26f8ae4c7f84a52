"""Chooses the server group to use among those of one name. There are several after a change that was carried out in
part; nodes that are in the chosen one already stay there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.cpi.contract import GroupMetadata
from coterie.group.change import Fate, fate
from coterie.plan.model import GroupNow, Snapshot
from coterie.plan.security_groups import differing

_LOST = "the group was deleted behind our back"
_CHANGED = "the group was changed behind our back"


@dataclass(frozen=True, slots=True)
class Choice:
    """`fate` and `reason`: what happens to the group, and why. `moves`: why nodes must change their group, or empty."""

    group: GroupNow
    fate: Fate
    reason: str
    moves: str


def members(snapshot: Snapshot) -> Counter[str | None]:
    """Intent of a server group → how many nodes have a VM in it."""
    return Counter(node.server_group for node in snapshot.nodes if node.has_vm)


def choose(
    snapshot: Snapshot, present: Sequence[GroupNow], held: Counter[str | None], metadata: GroupMetadata
) -> Choice | None:
    """`present`: all of one name in one cloud. None: there is none yet."""
    if not present:
        return None
    judged = [(group, *_judge(snapshot, group, metadata)) for group in present]
    best, what, reason = min(
        judged, key=lambda one: (one[1] == "replace", one[0].state == "intended", -held[one[0].intent])
    )
    moves = [why for group, how, why in judged if how == "replace" and why != _LOST and held[group.intent]]
    return Choice(best, what, reason, next(iter(moves), ""))


def _judge(snapshot: Snapshot, now: GroupNow, metadata: GroupMetadata) -> tuple[Fate, str]:
    cloud = snapshot.clouds[now.cloud]
    mendable = now.cid in cloud.mendable_groups
    if not mendable and now.cid in cloud.missing_groups:
        return "replace", _LOST
    what, reason = fate(now.metadata, metadata, cloud.capabilities.group_changes)
    made, seen = now.metadata.policy, cloud.group_policies.get(now.cid or "", now.metadata.policy)
    if what != "replace" and seen != made:
        return "replace", f"its policy was changed behind our back, {made or 'none'} → {seen or 'none'}"
    changed = differing(snapshot, now.cloud, now.cid, metadata) if what == "keep" else []
    if changed:
        return "update", f"rules of security group {', '.join(changed)} were changed behind our back"
    if mendable and what != "replace":
        return "update", f"{_LOST}; it is made again" if now.cid in cloud.missing_groups else _CHANGED
    return what, reason
