"""Nodes whose VM is dead or gone are made anew."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from coterie.ids import Ids
from coterie.ledger.rows import alarms, deployments, identity, nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger
from coterie.plan.model import Change, NodeChange, Plan, Rollout, ServerGroupRef
from coterie.plan.spec import NodeSpec
from coterie.requests.accept import PlanRows
from coterie.requests.regroup import Inheritance

_AT_ONCE = 10


def resurrect(ledger: Ledger, deployment: str) -> int | None:
    """Make the dead and missing nodes of a deployment anew, as they were; its manifest is not looked at."""
    with ledger.write() as tx:
        deployments.lock(tx, deployment)
        dead = _revivable(nodes.of_deployment(tx, deployment), alarms.of_clouds(tx))
        if not dead:
            return None
        chosen = Plan(
            deployment,
            tuple(_recreate(node, node.spec) for node in dead if node.spec),
            tuple(Rollout(name, 0, _AT_ONCE, serial=False) for name in sorted({n.instance_group for n in dead})),
            users=None,
        )
        return PlanRows(tx, chosen, Ids(), identity.director(tx).name, Inheritance({})).write("resurrect", None)


def _revivable(present: Sequence[NodeRow], alarmed: Container[str]) -> list[NodeRow]:
    """None in a cloud with an alarm: more likely its list is wrong, and an operator decides."""
    return [node for node in present if node.state in ("dead", "missing") and node.spec and node.cloud not in alarmed]


def _recreate(node: NodeRow, spec: dict[str, Any]) -> Change:
    details = NodeChange(
        node.instance_group,
        node.index,
        NodeSpec.of_wire(spec),
        node.addresses or {},
        ServerGroupRef(node.server_group) if node.server_group else None,
        node=node.uuid,
    )
    why = f"its VM is {node.state}"
    return Change("recreate", "node", node.name, why, node.cloud, details, node.az, destructive=True)
