"""Nodes whose VM is dead or gone, or whose health check failed too often, are made anew."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from coterie.flows.look import Look, is_meltdown
from coterie.ids import Ids
from coterie.ledger.rows import alarms, deployments, identity, nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger, Tx
from coterie.plan.model import Change, NodeChange, Plan, Rollout, ServerGroupRef
from coterie.plan.nodes import why_lost
from coterie.plan.spec import NodeSpec
from coterie.requests.accept import PlanRows
from coterie.requests.regroup import Inheritance

log = logging.getLogger(__name__)
_AT_ONCE = 10


def resurrect(ledger: Ledger, deployment: str, how: Look | None = None) -> int | None:
    """Make the dead, missing and lost nodes of a deployment anew, as they were; its manifest is not looked at.

    `how`: what counts as a meltdown.
    """
    with ledger.write() as tx:
        deployments.lock(tx, deployment)
        dead = _revivable(tx, nodes.of_deployment(tx, deployment), how or Look())
        if not dead:
            return None
        chosen = Plan(
            deployment,
            tuple(_recreate(node, node.spec) for node in dead if node.spec),
            tuple(Rollout(name, 0, _AT_ONCE, serial=False) for name in sorted({n.instance_group for n in dead})),
            users=None,
        )
        return PlanRows(tx, chosen, Ids(), identity.director(tx).name, Inheritance({})).write("resurrect", None)


def _revivable(tx: Tx, present: Sequence[NodeRow], how: Look) -> list[NodeRow]:
    """None in a cloud with an alarm: more likely its list is wrong, and an operator decides. None for its health alone
    where as many of the cloud's nodes fail theirs as a meltdown is: more likely the way to them is broken."""
    alarmed = alarms.of_clouds(tx)
    found = [node for node in present if node.spec and node.cloud not in alarmed]
    doubtful = find_doubtful_clouds(tx, found, how)
    if doubtful:
        log.warning("nodes of %s are not resurrected: too many fail their health checks", ", ".join(sorted(doubtful)))
    lost = [node for node in found if node.is_lost and node.cloud not in doubtful]
    return [node for node in found if node.state in ("dead", "missing")] + lost


def find_doubtful_clouds(tx: Tx, present: Sequence[NodeRow], how: Look) -> frozenset[str]:
    """Those of these nodes' clouds in which so many nodes are lost that more likely the way to them is broken."""
    return frozenset(
        cloud for cloud in {node.cloud for node in present if node.is_lost} if _is_doubtful(tx, cloud, how)
    )


def _is_doubtful(tx: Tx, cloud: str, how: Look) -> bool:
    present = nodes.of_cloud(tx, cloud)
    return is_meltdown(how, sum(node.is_lost for node in present), len(present))


def _recreate(node: NodeRow, spec: dict[str, Any]) -> Change:
    details = NodeChange(
        node.instance_group,
        node.index,
        NodeSpec.of_wire(spec),
        node.addresses or {},
        ServerGroupRef(node.server_group) if node.server_group else None,
        node=node.uuid,
    )
    why = why_lost(node.state, node.is_lost, str((node.problem or {}).get("what", "")))
    return Change("recreate", "node", node.name, why, node.cloud, details, node.az, destructive=True)
