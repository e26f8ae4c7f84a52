"""A plan as stages and steps: first what is only written down, then deletions, kind after kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coterie.cleanup.flows.delete import DELETE_OBJECT, RETIRE_DISK, DeleteObject, RetireDisk
from coterie.cleanup.flows.settle import CLOSE_INTENT, RECLAIM_OBJECT, CloseIntent, ReclaimObject
from coterie.cleanup.flows.target import Target
from coterie.cleanup.options import DELETION_ORDER, Options
from coterie.engine import stored
from coterie.errors import Conflict, CoterieError
from coterie.flows.node import RECLAIM_NODE
from coterie.flows.node_params import NodeProgress, NodeToMake, ReclaimNode
from coterie.ledger.rows import clouds, deployments, nodes
from coterie.ledger.rows.cleanups import FindingRow
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Tx
from coterie.ledger.work import steps, tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask

_AT_ONCE = 8


def reclaims(tx: Tx, items: Sequence[FindingRow], by: str | None) -> dict[str, int]:
    """Start one task per deployment whose nodes get their lost VMs back; a deployment at work is left to its task."""
    lost: dict[str, list[NewStep]] = defaultdict(list)
    for item in items:
        # A finding is a conductor's word: it must not bring the data of a node to another cloud's conductors.
        node = nodes.get(tx, item.node) if item.node and _is_node(item) else None
        data = steps.last_node_data(tx, node.uuid) if node and node.cloud == item.cloud else None
        cloud = clouds.get(tx, item.cloud)
        if data is not None and cloud is not None and item.deployment is not None:
            lost[item.deployment].append(_reclaim_step(item, data, cloud))
    started = {}
    for name, found in sorted(lost.items()):
        try:
            deployments.lock(tx, name)
        except Conflict:
            continue
        new = NewTask("reclaim", name, [NewStage("reclaim", found)], requested_by=by, opening=f"{len(found)} VMs")
        started[name] = tasks.create(tx, new)
    return started


def sweep_stages(tx: Tx, items: Sequence[FindingRow], options: Options, started: dict[str, int]) -> list[NewStage]:
    """Each waits for the end of the one before it, not for its success: a sweep goes on after errors."""
    rest = [item for item in items if not (_is_node(item) and item.deployment in started)]
    written = [item for item in rest if item.action in ("close", "reclaim")]
    parts = [("settle", written)]
    deletions = [item for item in rest if item.action in ("delete", "retire")]
    parts += [(kind, [item for item in deletions if item.kind == kind]) for kind in DELETION_ORDER]
    present = clouds.all_clouds(tx)
    stages: list[NewStage] = []
    for name, part in parts:
        if part:
            needs = [(len(stages) - 1, "ended")] if stages else []
            found = [_step(item, options, started, present[item.cloud]) for item in part if item.cloud in present]
            stages.append(NewStage(name, found, needs, _AT_ONCE))
    return stages


def _is_node(item: FindingRow) -> bool:
    return bool(item.action == "reclaim" and item.kind == "vm" and item.node)


def _reclaim_step(item: FindingRow, data: dict[str, Any], cloud: CloudRow) -> NewStep:
    """`data`: of the last step that made or changed the node; this one goes on from there."""
    node = replace(stored.read(NodeToMake, data), reason=item.reason)
    progress = replace(stored.read(NodeProgress, data), vm=item.intent, up_by=None)
    params = ReclaimNode(node, item.id)
    return RECLAIM_NODE.step(params, item.ref or item.intent or "", cloud, node=item.node, progress=progress)


def _step(item: FindingRow, options: Options, started: dict[str, int], cloud: CloudRow) -> NewStep:
    target = Target(
        finding=item.id,
        kind=item.kind,
        cid=item.cid or "",
        created_at=item.created_at,
        intent=item.intent or "",
        deployment=item.deployment,
        reason=item.reason,
        every_s=1.0 / options.rate,
        hours=options.hours,
        reclaims=started,
    )
    subject = f"{item.kind} {item.cid or item.intent}"
    match item.action:
        case "close":
            return CLOSE_INTENT.step(CloseIntent(target), subject, cloud)
        case "reclaim":
            return RECLAIM_OBJECT.step(ReclaimObject(target), subject, cloud)
        case "retire":
            return RETIRE_DISK.step(RetireDisk(target), subject, cloud)
        case "delete":
            snapshot = target.kind == "disk" and options.disks == "snapshot"
            return DELETE_OBJECT.step(DeleteObject(target, snapshot), subject, cloud)
    raise CoterieError(f"a cleanup has no action {item.action!r}")
