"""Nodes whose VM is dead or gone are made anew."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.ids import Ids
from coterie.ledger.rows import deployments, identity, nodes
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger
from coterie.plan.model import Change, Plan, Rollout
from coterie.requests.accept import Execution

_AT_ONCE = 10
_MANY_MISSING, _SHARE_MISSING = 5, 0.2


def resurrect(ledger: Ledger, deployment: str) -> int | None:
    """Make the dead and missing nodes of a deployment anew, as they were; its wish is not looked at."""
    with ledger.write() as tx:
        deployments.lock(tx, deployment)
        dead = _revivable(nodes.of_deployment(tx, deployment))
        if not dead:
            return None
        chosen = Plan(
            deployment,
            tuple(_as_it_was(node) for node in dead),
            tuple(Rollout(name, 0, _AT_ONCE, serial=False) for name in sorted({n.instance_group for n in dead})),
            users=None,
        )
        return Execution(tx, chosen, Ids(), identity.director(tx).name).start("resurrect", None)


def _revivable(present: Sequence[NodeRow]) -> list[NodeRow]:
    """Where very many are missing at once, it is rather our sight of the cloud that is lost: a person must look."""
    missing = sum(node.state == "missing" for node in present)
    blind = missing >= _MANY_MISSING and missing > len(present) * _SHARE_MISSING
    states = ("dead",) if blind else ("dead", "missing")
    return [node for node in present if node.state in states and node.spec]


def _as_it_was(node: NodeRow) -> Change:
    details = {
        "instance_group": node.instance_group,
        "index": node.index,
        "node": node.uuid,
        "wish": node.spec,
        "addresses": node.addresses or {},
        "leaves": {},
        "gains": {},
        "server_group": {"intent": node.server_group} if node.server_group else None,
    }
    return Change("recreate", "node", node.name, f"its VM is {node.state}", node.cloud, node.az, True, details)
