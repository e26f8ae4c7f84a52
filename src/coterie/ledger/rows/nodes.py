"""Nodes: the machines under management."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.rows.conductor_groups import OF_NODE
from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds, nodes
from coterie.ledger.writes import NOW, Write, delete, update
from coterie.plan.spec import HealthSpec

UNHEALTHY = "unhealthy"  # code of the problem


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

    @property
    def is_unhealthy(self) -> bool:
        """Its VM runs, and its health check fails; not one whose creation or change has failed."""
        return self.state == "failing" and (self.problem or {}).get("code") == UNHEALTHY

    @property
    def failed_checks(self) -> int:
        """In a row; 0 as well where its VM runs again and was not checked yet."""
        return int((self.problem or {}).get("failures", 0)) if self.is_unhealthy else 0

    @property
    def is_lost(self) -> bool:
        """By its health check: it failed as often in a row as the node's spec allows."""
        limit = health_limit(self.spec)
        return self.is_unhealthy and 0 < limit <= self.failed_checks


def health_limit(spec: Mapping[str, Any] | None) -> int:
    """Failed checks in a row after which a node may be recreated; 0: it never may."""
    health = HealthSpec.of_spec(spec or {})
    return health.recreate_after if health else 0


_ROW = tuple(nodes.c[name] for name in NodeRow.__slots__)
_CONFIGURED = nodes.join(clouds, clouds.c.name == nodes.c.cloud)


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


def to_check(
    tx: Tx, cloud: str, group: str, *, deployment: str | None, only: str | None, after: str, most: int
) -> list[NodeRow]:
    """Nodes of a cloud whose work runs in this conductor group, and whose health can be checked: those that are up and
    have a check, and those that failed theirs. Ordered by uuid, from the one `after` on."""
    query = (
        sa.select(*_ROW)
        .select_from(_CONFIGURED)
        .where(nodes.c.cloud == cloud, nodes.c.uuid > after, OF_NODE.in_([group]), _may_be_checked())
        .order_by(nodes.c.uuid)
        .limit(most)
    )
    return [NodeRow(*row) for row in tx.execute(_within(query, deployment, only))]


def groups_to_check(tx: Tx, *, deployment: str | None, only: str | None) -> set[tuple[str, str]]:
    """(cloud, conductor group) in which nodes may have a health check to run."""
    query = sa.select(nodes.c.cloud, OF_NODE).select_from(_CONFIGURED).where(_may_be_checked())
    return {(cloud, group) for cloud, group in tx.execute(_within(query, deployment, only).distinct())}


def clouds_of(tx: Tx, *, deployment: str | None, only: str | None) -> set[str]:
    """Configured clouds that these nodes are in."""
    query = sa.select(nodes.c.cloud).select_from(_CONFIGURED)
    return set(tx.execute(_within(query, deployment, only).distinct()).scalars())


def _within(query: sa.Select[Any], deployment: str | None, only: str | None) -> sa.Select[Any]:
    wanted = {nodes.c.deployment: deployment, nodes.c.uuid: only}
    return query.where(*[column == value for column, value in wanted.items() if value is not None])


def _may_be_checked() -> sa.ColumnElement[bool]:
    has_check = nodes.c.spec["health"]["port"].as_string().is_not(None)
    failed_it = nodes.c.problem["code"].as_string() == UNHEALTHY
    return sa.or_(sa.and_(nodes.c.state == "up", has_check), sa.and_(nodes.c.state == "failing", failed_it))


def unhealthy(what: str, failures: int) -> dict[str, Any]:
    """The problem of a node whose health check fails."""
    return {
        "code": UNHEALTHY,
        "what": what,
        "remedy": "see why on the machine; the check runs again with every look",
        "failures": failures,
    }


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


def record_stopped(uuid: str, spec: Mapping[str, Any], *, az: str, addresses: Mapping[str, str]) -> Write:
    """It has no VM, and is made by this spec when it is started."""
    return _change(uuid, state="stopped", spec=spec, az=az, addresses=dict(addresses), host=None, problem=None)


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
