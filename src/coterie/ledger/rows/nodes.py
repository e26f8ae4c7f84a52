"""Nodes: the machines under management."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import nodes
from coterie.ledger.writes import NOW, Write, delete, update


@dataclass(frozen=True, slots=True)
class NodeRow:
    uuid: str
    deployment: str
    instance_group: str
    index: int
    az: str
    cloud: str
    conductor_group: str | None
    state: str
    spec: dict[str, Any] | None
    vm_intent: str | None
    vm_cid: str | None
    server_group: str | None
    host: str | None
    addresses: dict[str, str] | None
    problem: dict[str, Any] | None
    enrolled: bool = False

    @property
    def name(self) -> str:
        if self.enrolled:
            return self.instance_group
        return f"{self.instance_group}/{self.index}"


_ROW = tuple(nodes.c[name] for name in NodeRow.__slots__)


def get(tx: Tx, uuid: str) -> NodeRow | None:
    row = tx.execute(sa.select(*_ROW).where(nodes.c.uuid == uuid)).first()
    return NodeRow(*row) if row else None


def of_deployment(tx: Tx, deployment: str) -> list[NodeRow]:
    query = (
        sa.select(*_ROW)
        .where(nodes.c.deployment == deployment)
        .order_by(nodes.c.instance_group, nodes.c["index"], nodes.c.uuid)
    )
    return [NodeRow(*row) for row in tx.execute(query)]


def of_cloud(tx: Tx, cloud: str) -> list[NodeRow]:
    return [NodeRow(*row) for row in tx.execute(sa.select(*_ROW).where(nodes.c.cloud == cloud))]


def of_vm(tx: Tx, cloud: str, cid: str) -> NodeRow | None:
    row = tx.execute(sa.select(*_ROW).where(nodes.c.cloud == cloud, nodes.c.vm_cid == cid)).first()
    return NodeRow(*row) if row else None


def own_groups(tx: Tx, deployment: str) -> dict[str, str]:
    """Conductor groups of the nodes that do not inherit theirs from their cloud."""
    own = sa.and_(nodes.c.deployment == deployment, nodes.c.conductor_group.is_not(None))
    return {
        row.uuid: row.conductor_group for row in tx.execute(sa.select(nodes.c.uuid, nodes.c.conductor_group).where(own))
    }


def in_group(tx: Tx, server_group: str) -> int:
    """How many nodes have a VM in this server group."""
    query = sa.select(sa.func.count()).where(nodes.c.server_group == server_group, nodes.c.vm_intent.is_not(None))
    return tx.execute(query).scalar_one()


def change(uuid: str, **values: Any) -> Write:
    return update("nodes", {"uuid": uuid}, **values, updated_at=NOW)


def change_if(seen: NodeRow, **values: Any) -> Write:
    """Change a node only if its state and VM are still the ones that were seen."""
    key = {"uuid": seen.uuid, "state": seen.state, "vm_cid": seen.vm_cid}
    return update("nodes", key, **values, updated_at=NOW)


def leave_addresses(left: Mapping[str, str]) -> list[Write]:
    """Free these addresses, now that the VM that had them is gone."""
    return [delete("addresses", {"network": network, "ip": ip}) for network, ip in left.items()]


def free_addresses(uuid: str) -> Write:
    """Free every address of this node."""
    return delete("addresses", {"node": uuid})


def forget(uuid: str) -> list[Write]:
    return [delete("nodes", {"uuid": uuid}), free_addresses(uuid)]
