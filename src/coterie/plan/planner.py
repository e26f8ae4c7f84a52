"""The planner: one pure function from wish, memory and facts to changes, or to every reason why not."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.errors import Refused
from coterie.manifest import InstanceGroupSpec
from coterie.plan import groups as group_plans
from coterie.plan import kept, limits, stemcells
from coterie.plan.groups import plan_groups, policy_problems
from coterie.plan.model import Plan, Snapshot
from coterie.plan.nodes import Options, plan_nodes, removal


def make_plan(snapshot: Snapshot, wishes: Sequence[InstanceGroupSpec], options: Options | None = None) -> Plan:
    """Raises Refused with all reasons at once; changes nothing, whatever comes of it."""
    chosen = options or Options()
    refusals: list[str] = []
    cells = stemcells.choose(snapshot, wishes, refusals)
    groups = plan_groups(snapshot, wishes)
    nodes = plan_nodes(snapshot, wishes, cells, groups, chosen)
    changes = [
        *stemcells.uploads(snapshot, nodes.changes),
        *groups.changes,
        *nodes.changes,
        *nodes.removals,
        *([] if chosen.only else group_plans.removals(groups)),
    ]
    refusals += groups.refusals + nodes.refusals + policy_problems(snapshot, groups.changes)
    refusals += limits.refusals(snapshot, wishes, changes)
    if refusals:
        raise refused(snapshot.deployment, refusals)
    return Plan(
        snapshot.deployment,
        tuple(changes),
        tuple(nodes.rollouts),
        tuple(group_plans.users(groups, wishes)),
        (*_notes(snapshot, changes), *kept.left_aside(snapshot, changes)),
    )


def plan_removal(snapshot: Snapshot, delete_disks: bool) -> Plan:
    """The end of a deployment: nodes, then groups, kept disks if told so, then images that nobody else uses."""
    groups = plan_groups(snapshot, [])
    changes = [
        *(removal(node, "the deployment is deleted", delete_disks) for node in snapshot.nodes),
        *group_plans.removals(groups),
        *(kept.removals(snapshot) if delete_disks else ()),
        *stemcells.removals(snapshot),
    ]
    notes = () if delete_disks else tuple(kept.staying(snapshot))
    return Plan(snapshot.deployment, tuple(changes), notes=notes, deletes_deployment=True)


def refused(deployment: str, reasons: Sequence[str]) -> Refused:
    unique = list(dict.fromkeys(reasons))
    return Refused(
        f"deployment {deployment} cannot be as the manifest says",
        why="; ".join(unique),
        remedy="change the manifest or the cloud as each reason says; nothing was changed",
        details={"reasons": unique},
    )


def _notes(snapshot: Snapshot, changes: Sequence[object]) -> list[str]:
    return [
        f"cloud {cloud.name} cannot be asked what it holds ({cloud.capabilities.unsupported['find'].why}): after a "
        "lost answer a person has to decide"
        for cloud in snapshot.clouds.values()
        if not cloud.capabilities.finds and changes
    ]
