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
    inherited_group: str | None = None

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


def in_group(tx: Tx, server_group: str) -> int:
    """How many nodes have a VM in this server group."""
    query = sa.select(sa.func.count()).where(nodes.c.server_group == server_group, nodes.c.vm_intent.is_not(None))
    return tx.execute(query).scalar_one()


def set_state(uuid: str, state: str, problem: dict[str, Any] | None = None) -> Write:
    return _change(uuid, state=state, problem=problem)


def set_state_if(seen: NodeRow, state: str, problem: dict[str, Any] | None) -> Write:
    """Change the state only if state and VM are still the ones that were seen."""
    key = {"uuid": seen.uuid, "state": seen.state, "vm_cid": seen.vm_cid}
    return update("nodes", key, state=state, problem=problem, updated_at=NOW)


def record_up(uuid: str, spec: Mapping[str, Any], host: str | None) -> Write:
    """The node is as its spec says, and healthy."""
    return _change(uuid, state="up", spec=spec, host=host, problem=None)


def intend_vm(uuid: str, intent: str, *, az: str, addresses: dict[str, str], server_group: str | None) -> Write:
    """To be committed with the VM's intent: from now on there may be a VM in the group."""
    return _change(uuid, az=az, addresses=addresses, vm_intent=intent, vm_cid=None, server_group=server_group)


def record_vm(uuid: str, cid: str) -> Write:
    return _change(uuid, vm_cid=cid)


def record_reclaimed_vm(uuid: str, cid: str) -> Write:
    """Its VM was found although its creation had failed: the node changes until it is up."""
    return _change(uuid, vm_cid=cid, state="changing", problem=None)


def forget_vm(uuid: str) -> Write:
    return _change(uuid, vm_intent=None, vm_cid=None, server_group=None, host=None)


def set_server_group(uuid: str, intent: str | None) -> Write:
    return _change(uuid, server_group=intent)


def set_conductor_group(uuid: str, group: str | None) -> Write:
    """None: the node inherits the group of its instance group, az or cloud."""
    return _change(uuid, conductor_group=group)


def leave_addresses(left: Mapping[str, str]) -> list[Write]:
    """Free these addresses, now that the VM that had them is gone."""
    return [delete("addresses", {"network": network, "ip": ip}) for network, ip in left.items()]


def free_addresses(uuid: str) -> Write:
    """Free every address of this node."""
    return delete("addresses", {"node": uuid})


def forget(uuid: str) -> list[Write]:
    return [delete("nodes", {"uuid": uuid}), free_addresses(uuid)]


def _change(uuid: str, **values: Any) -> Write:
    return update("nodes", {"uuid": uuid}, **values, updated_at=NOW)
