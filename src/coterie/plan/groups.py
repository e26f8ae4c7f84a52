"""Server groups in a plan: made, changed, replaced by another, or removed; one per logical group and cloud."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import GroupMetadata, SecurityGroup
from coterie.group.policy import PROMISES
from coterie.manifest import InstanceGroupSpec, ServerGroupSpec
from coterie.plan.model import Action, Change, GroupChange, GroupNow, GroupRemoval, ServerGroupRef, Snapshot, with_parts
from coterie.plan.present import Choice, choose, members
from coterie.plan.security_groups import SecurityGroupPlan, assign, with_rules

Key = tuple[str, str]  # logical name, cloud


@dataclass(slots=True)
class GroupPlan:
    """`stays`: groups whose nodes may stay. `moves`: why the nodes of a group must be made anew."""

    changes: list[Change] = field(default_factory=list)
    stays: dict[Key, str] = field(default_factory=dict)  # → intent
    moves: dict[Key, str] = field(default_factory=dict)
    obsolete: list[tuple[GroupNow, str]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def ref(self, key: Key) -> ServerGroupRef:
        return ServerGroupRef(intent=self.stays[key]) if key in self.stays else ServerGroupRef(new=subject(key))


def subject(key: Key) -> str:
    return f"{key[0]}@{key[1]}"


def plan_groups(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec]) -> GroupPlan:
    plan = GroupPlan()
    present: dict[Key, list[GroupNow]] = defaultdict(list)
    for group in snapshot.groups:
        if group.state != "deleting":
            present[group.name, group.cloud].append(group)
    held = members(snapshot)
    security_groups = SecurityGroupPlan(plan.refusals, plan.notes)
    for key, (metadata, may_replace) in _server_groups(snapshot, specs, security_groups).items():
        _plan_one(plan, snapshot, key, choose(snapshot, present[key], held, metadata), metadata, may_replace)
    plan.changes = with_rules(snapshot, plan.changes)
    kept = set(plan.stays.values())
    doomed = {group.intent for group, _ in plan.obsolete}
    for group in snapshot.groups:
        if group.intent not in kept and group.intent not in doomed:
            plan.obsolete.append((group, _why_obsolete(group)))
    return plan


def _why_obsolete(group: GroupNow) -> str:
    if group.state == "intended":
        return "it was not finished, and is not wanted any more"
    return "no instance group uses it any more"


def users(plan: GroupPlan, specs: Sequence[InstanceGroupSpec]) -> list[tuple[str, ServerGroupRef]]:
    """Which instance group uses which server groups, one per cloud."""
    found = []
    for spec in specs:
        if spec.server_group is not None:
            for cloud in dict.fromkeys(az.cloud for az in spec.azs):
                found.append((spec.name, plan.ref((spec.server_group.name, cloud))))
    return found


def removals(plan: GroupPlan) -> list[Change]:
    return [
        Change(
            "leave" if group.adopted else "delete",
            "group",
            subject((group.name, group.cloud)),
            with_parts(reason, group.parts),
            group.cloud,
            GroupRemoval(group.intent, group.cid),
        )
        for group, reason in plan.obsolete
    ]


def _create(plan: GroupPlan, key: Key, metadata: GroupMetadata, reason: str) -> None:
    details = GroupChange(key[0], metadata)
    plan.changes.append(Change(_create_or_adopt(metadata), "group", subject(key), reason, key[1], details))


def _create_or_adopt(metadata: GroupMetadata) -> Action:
    return "adopt" if metadata.options.get("adopt") else "create"


def _plan_one(
    plan: GroupPlan, snapshot: Snapshot, key: Key, choice: Choice | None, metadata: GroupMetadata, may_replace: bool
) -> None:
    if choice is None:
        _create(plan, key, metadata, f"policy {metadata.policy}" if metadata.policy else "security groups")
        return
    if choice.moves and not may_replace and not snapshot.clouds[key[1]].capabilities.moves_members:
        plan.refusals.append(
            f"server group {key[0]}: {choice.moves} needs nodes to be made anew, "
            "which placement.recreate_on_policy_change: false forbids"
        )
    now = choice.group
    if choice.fate == "replace":
        _replace(plan, key, now, metadata, choice.reason)
        return
    plan.stays[key] = now.intent
    details = GroupChange(key[0], metadata, now.intent, now.cid)
    if now.state == "intended":
        # Its creation failed or was cancelled: idempotent per mark, so it is simply asked for again.
        action = _create_or_adopt(metadata)
        plan.changes.append(Change(action, "group", subject(key), "not finished last time", key[1], details))
    elif choice.fate == "update":
        plan.changes.append(Change("update", "group", subject(key), choice.reason, key[1], details))


def _replace(plan: GroupPlan, key: Key, now: GroupNow, metadata: GroupMetadata, reason: str) -> None:
    _create(plan, key, metadata, reason)
    plan.moves[key] = f"server group {key[0]}: {reason}"
    plan.obsolete.append((now, f"replaced: {reason}"))


def _server_groups(
    snapshot: Snapshot, specs: Sequence[InstanceGroupSpec], plan: SecurityGroupPlan
) -> dict[Key, tuple[GroupMetadata, bool]]:
    return {
        key: (_metadata(snapshot, key, users, plan), all(_may_replace(user) for user in users))
        for key, users in instance_groups_by_server_group(specs).items()
    }


def instance_groups_by_server_group(specs: Sequence[InstanceGroupSpec]) -> dict[Key, list[InstanceGroupSpec]]:
    """(server group, cloud) → the instance groups whose nodes are in it there."""
    found: dict[Key, list[InstanceGroupSpec]] = {}
    for spec in specs:
        if spec.server_group is not None:
            for cloud in dict.fromkeys(az.cloud for az in spec.azs):
                found.setdefault((spec.server_group.name, cloud), []).append(spec)
    return found


def driver_options(group: ServerGroupSpec) -> dict[str, Any]:
    """The options of a server group as its driver gets them."""
    options: dict[str, Any] = dict(group.options)
    if group.named:
        options["name"] = group.name  # a word that the user chose may be taken by an operator's group
    if group.adopt:
        options["adopt"] = True
    return options


def _may_replace(spec: InstanceGroupSpec) -> bool:
    return spec.server_group is not None and spec.server_group.recreate_on_policy_change


def _metadata(
    snapshot: Snapshot, key: Key, users: Sequence[InstanceGroupSpec], plan: SecurityGroupPlan
) -> GroupMetadata:
    group = users[0].server_group
    if group is None:
        raise ValueError(f"{users[0].name} has no server group")
    return GroupMetadata(
        director=dict(snapshot.director),
        deployment=snapshot.deployment,
        instance_group=group.name,
        azs=tuple(dict.fromkeys(az.name for user in users for az in user.azs if az.cloud == key[1])),
        security_groups=assign(plan, snapshot, key[1], security_groups_of(users)),
        policy=group.policy,
        options=driver_options(group),
    )


def security_groups_of(users: Iterable[InstanceGroupSpec]) -> tuple[SecurityGroup, ...]:
    return tuple({group.name: group for user in users for group in user.security_groups}.values())


def policy_problems(snapshot: Snapshot, changes: Iterable[Change]) -> list[str]:
    """Policies that a cloud cannot keep: refused here, never at the fortieth VM."""
    found = []
    for change in changes:
        policy = change.details.metadata.policy if isinstance(change.details, GroupChange) else None
        able = snapshot.clouds[change.cloud].capabilities.policies
        if policy is not None and policy not in able:
            promised = PROMISES[policy]
            offered = ", ".join(sorted(able)) or "no policy at all"
            found.append(
                f"{change.subject}: cloud {change.cloud} cannot promise {policy} ({promised}); it offers {offered}"
            )
    return found
