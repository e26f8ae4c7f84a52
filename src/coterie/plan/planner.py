"""The planner: a pure function from specs, ledger snapshot and facts to changes, or to every reason against them."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.errors import Refused
from coterie.manifest import InstanceGroupSpec
from coterie.plan import groups as group_plans
from coterie.plan import kept, limits, stemcells
from coterie.plan.groups import plan_groups, policy_problems
from coterie.plan.migrate import migrate
from coterie.plan.model import Plan, Snapshot
from coterie.plan.nodes import Options, plan_nodes, removal, unhealthy_notes


def make_plan(snapshot: Snapshot, specs: Sequence[InstanceGroupSpec], options: Options | None = None) -> Plan:
    """Raises Refused with all reasons at once; writes nothing."""
    chosen = options or Options()
    refusals: list[str] = []
    migration = migrate(snapshot, specs)
    snapshot = migration.snapshot
    cells = stemcells.choose(snapshot, specs, refusals)
    groups = plan_groups(snapshot, specs)
    disks = kept.DiskOffers(snapshot, reuse=chosen.reuse_disks)
    nodes = plan_nodes(migration, specs, cells, groups, disks, chosen)
    changes = [
        *stemcells.uploads(snapshot, nodes.changes),
        *groups.changes,
        *nodes.changes,
        *nodes.removals,
        *([] if chosen.only else group_plans.removals(groups)),
    ]
    refusals += groups.refusals + nodes.refusals + policy_problems(snapshot, groups.changes)
    refusals += limits.refusals(snapshot, specs, changes, nodes.members_per_az)
    planned = {change.subject for change in nodes.changes}
    disks.left = [(node, disk) for node, disk in disks.left if node in planned]
    if refusals:
        raise refusal_error(snapshot.deployment, refusals)
    return Plan(
        snapshot.deployment,
        tuple(changes),
        tuple(nodes.rollouts),
        tuple(group_plans.users(groups, specs)),
        (
            *_notes(snapshot, changes),
            *dict.fromkeys(groups.notes),
            *unhealthy_notes(snapshot, changes),
            *kept.left_aside(snapshot, disks),
        ),
        switches=() if chosen.only else _switches(snapshot, chosen),
        offers=tuple(disks.left),
        server_group_names=migration.server_groups,
    )


def _switches(snapshot: Snapshot, chosen: Options) -> tuple[str, ...]:
    if chosen.resurrection == bool(snapshot.resurrection):
        return ()
    return ("resurrection: off → on" if chosen.resurrection else "resurrection: on → off",)


def plan_removal(snapshot: Snapshot, delete_disks: bool) -> Plan:
    """Delete a deployment: nodes, then groups, kept disks on request, then images that no other deployment uses."""
    groups = plan_groups(snapshot, [])
    changes = [
        *(removal(node, "the deployment is deleted", delete_disks) for node in snapshot.nodes),
        *group_plans.removals(groups),
        *(kept.removals(snapshot) if delete_disks else ()),
        *stemcells.removals(snapshot),
    ]
    notes = () if delete_disks else tuple(kept.staying(snapshot))
    return Plan(snapshot.deployment, tuple(changes), notes=notes, deletes_deployment=True)


def refusal_error(deployment: str, reasons: Sequence[str]) -> Refused:
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
