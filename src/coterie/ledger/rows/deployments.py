"""Deployments: the manifest in force, and the rows that a new one brings with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.errors import Conflict, StalePlan
from coterie.ledger.rows import holds, machine_secrets
from coterie.ledger.rows.nodes import UNHEALTHY
from coterie.ledger.store import Tx, now, time
from coterie.ledger.tables import (
    addresses,
    deployments,
    instance_groups,
    manifests,
    nodes,
    objects,
    server_group_users,
    steps,
    tasks,
)


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    name: str
    manifest: str
    config_id: int
    serial: int
    resurrection: bool


@dataclass(frozen=True, slots=True)
class NewNode:
    uuid: str
    instance_group: str
    index: int
    az: str
    cloud: str
    addresses: dict[str, str]
    inherited_group: str | None = None


_KEPT_MANIFESTS = 50  # of each deployment
_LOCK = 0x636F7464  # with the hash of a name; no other lock has this first half
_ROW = tuple(deployments.c[name] for name in DeploymentRow.__slots__)


def get(tx: Tx, name: str) -> DeploymentRow | None:
    row = tx.execute(sa.select(*_ROW).where(deployments.c.name == name)).first()
    return DeploymentRow(*row) if row else None


def resurrecting(tx: Tx) -> list[str]:
    """Deployments with a dead, missing or unhealthy node that want it back and have no task under way."""
    busy = sa.select(tasks.c.deployment).where(
        tasks.c.state.in_(("running", "cancelling")), tasks.c.deployment.is_not(None)
    )
    query = (
        sa.select(deployments.c.name)
        .join(nodes, nodes.c.deployment == deployments.c.name)
        .where(
            deployments.c.resurrection.is_(sa.true()),
            sa.or_(
                nodes.c.state.in_(("dead", "missing")),
                sa.and_(nodes.c.state == "failing", nodes.c.problem["code"].as_string() == UNHEALTHY),
            ),
            deployments.c.name.not_in(busy),
        )
        .distinct()
    )
    return list(tx.execute(query).scalars())


def unfinished(tx: Tx, names: Sequence[str] | None = None) -> dict[str, int]:
    """Deployments whose newest ended deploy or delete failed or was cancelled, with that task. `names` None: of all."""
    ended = (tasks.c.kind.in_(("deploy", "delete")), tasks.c.state.in_(("done", "failed", "cancelled")))
    newest = sa.select(sa.func.max(tasks.c.id)).where(*ended).group_by(tasks.c.deployment)
    if names is not None:
        newest = newest.where(tasks.c.deployment.in_(names))
    query = (
        sa.select(tasks.c.deployment, tasks.c.id)
        .join(deployments, deployments.c.name == tasks.c.deployment)
        .where(tasks.c.id.in_(newest), tasks.c.state != "done")
    )
    return {str(name): task for name, task in tx.execute(query)}


def lock(tx: Tx, name: str) -> DeploymentRow | None:
    """Lock the deployment for this transaction and make sure that no task works on it."""
    row = _lock_row(tx, name)
    query = sa.select(tasks.c.id).where(tasks.c.deployment == name, tasks.c.state.in_(("running", "cancelling")))
    running = tx.execute(query).scalar()
    if running is not None:
        raise Conflict(
            f"task {running} is working on deployment {name}",
            remedy=f"wait for it (coterie tasks watch {running}) or cancel it (coterie tasks cancel {running})",
            details={"task_id": running},
        )
    holds.refuse_held(tx, holds.of_deployment(name))
    holds.refuse_held(tx, holds.STEMCELLS)
    return row


def _lock_row(tx: Tx, name: str) -> DeploymentRow | None:
    """Lock a name also before it has a row: of two requests for it, the second one sees what the first one stored."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK, sa.func.hashtext(name))))
    row = tx.execute(sa.select(*_ROW).where(deployments.c.name == name).with_for_update()).first()
    return DeploymentRow(*row) if row else None


def save(tx: Tx, name: str, *, manifest: str, config_id: int, resurrection: bool) -> None:
    """Store the manifest. Of two first deployments of one name at once, the key lets one succeed."""
    values: dict[str, Any] = {"manifest": manifest, "config_id": config_id, "resurrection": resurrection}
    changed = (
        deployments.update()
        .where(deployments.c.name == name)
        .values(**values, serial=deployments.c.serial + 1, updated_at=now())
    )
    if tx.execute(changed).rowcount:
        return
    try:
        tx.execute(deployments.insert().values(name=name, **values, created_at=now(), updated_at=now()))
    except sa.exc.IntegrityError as taken:
        raise Conflict(f"deployment {name} was made by another request meanwhile", remedy="plan again") from taken


def add_to_history(tx: Tx, name: str, manifest: str, by: str | None) -> None:
    """Add an accepted manifest, and forget those of this deployment that are too old to be kept."""
    tx.execute(manifests.insert().values(deployment=name, body=manifest, requested_by=by, created_at=now()))
    mine = sa.select(manifests.c.id).where(manifests.c.deployment == name).order_by(manifests.c.id.desc())
    oldest = tx.execute(mine.offset(_KEPT_MANIFESTS - 1).limit(1)).scalar()
    if oldest is not None:
        tx.execute(manifests.delete().where(manifests.c.deployment == name, manifests.c.id < oldest))


def hide_manifest(tx: Tx, name: str, manifest: str) -> None:
    """Replace the text by one without secrets; nothing else about the deployment changes."""
    tx.execute(deployments.update().where(deployments.c.name == name).values(manifest=manifest))


def stop_resurrection(tx: Tx, name: str) -> None:
    """A deployment on its way out must not be brought back to life."""
    tx.execute(deployments.update().where(deployments.c.name == name).values(resurrection=False))


def forget_deleted(tx: Tx, task: int, name: str) -> bool:
    """Drop a deployment whose nodes this task has deleted. On PostgreSQL a conductor's role may do that only so."""
    if tx.dialect.name == "postgresql":
        return bool(tx.execute(sa.text("SELECT coterie_forget_deployment(:task)"), {"task": task}).scalar())
    return forget_if_empty(tx, name)


def forget_if_empty(tx: Tx, name: str) -> bool:
    """Drop a deployment whose nodes are all gone."""
    if tx.execute(sa.select(nodes.c.uuid).where(nodes.c.deployment == name).limit(1)).first() is not None:
        return False
    ids = sa.select(instance_groups.c.id).where(instance_groups.c.deployment == name)
    tx.execute(server_group_users.delete().where(server_group_users.c.instance_group.in_(ids)))
    tx.execute(instance_groups.delete().where(instance_groups.c.deployment == name))
    machine_secrets.forget_deployment(tx, name)
    return tx.execute(deployments.delete().where(deployments.c.name == name)).rowcount == 1


def add_nodes(tx: Tx, deployment: str, new: Sequence[NewNode]) -> None:
    if not new:
        return
    at = time(tx)
    rows = [
        {
            "uuid": node.uuid,
            "deployment": deployment,
            "instance_group": node.instance_group,
            "index": node.index,
            "az": node.az,
            "cloud": node.cloud,
            "inherited_group": node.inherited_group,
            "state": "planned",
            "addresses": node.addresses,
            "created_at": at,
            "updated_at": at,
        }
        for node in new
    ]
    tx.execute(nodes.insert(), rows)
    reserve(tx, deployment, [(node.uuid, node.addresses) for node in new])


def rename_nodes(tx: Tx, renamed: Sequence[tuple[str, str, int, str]]) -> None:
    """Nodes by uuid, with their instance group and index from now on, and their name before. Until a step has written
    the name to the VM, it is unfinished."""
    for n, (uuid, group, _, _) in enumerate(renamed):  # first out of each other's way: two may exchange their names
        aside = nodes.update().where(nodes.c.uuid == uuid)
        tx.execute(aside.values(instance_group=group, index=-1 - n))
    for uuid, _, index, before in renamed:
        problem = {"code": "renamed", "what": f"its VM is still named {before} in the cloud"}
        named = nodes.update().where(nodes.c.uuid == uuid)
        tx.execute(named.values(index=index, problem=problem, updated_at=now()))


def free_unused_addresses(tx: Tx, deployment: str) -> None:
    """Free what an earlier task, which failed or was cancelled, took for nodes and did not give them. Only while no
    task works on the deployment: one takes the new address of a node before its old VM is gone."""
    nodes_now = tx.execute(sa.select(nodes.c.uuid, nodes.c.addresses).where(nodes.c.deployment == deployment))
    has = {uuid: given or {} for uuid, given in nodes_now}
    taken = tx.execute(
        sa.select(addresses.c.node, addresses.c.network, addresses.c.ip).where(addresses.c.deployment == deployment)
    )
    for node, network, ip in taken.all():
        if node in has and has[node].get(network) != ip:
            tx.execute(addresses.delete().where(addresses.c.network == network, addresses.c.ip == ip))


def reserve(tx: Tx, deployment: str, wanted: Sequence[tuple[str, dict[str, str]]]) -> None:
    """Give addresses to nodes; the key (network, ip) makes sure that none is given twice."""
    rows = [
        {"network": network, "ip": ip, "node": node, "deployment": deployment}
        for node, given in wanted
        for network, ip in given.items()
    ]
    if not rows:
        return
    try:
        tx.execute(addresses.insert(), rows)
    except sa.exc.IntegrityError as taken:
        raise StalePlan(
            f"an address for deployment {deployment} was given to another one meanwhile", remedy="plan again"
        ) from taken


def abandon(tx: Tx, name: str) -> None:
    """Forget the deployment, its nodes and its unfinished work; what clouds hold of it stays in the ledger, unused.

    Its steps end under a new epoch, so that a conductor that still runs one has its result refused.
    """
    mine = sa.select(tasks.c.id).where(tasks.c.deployment == name, tasks.c.state.in_(("running", "cancelling")))
    open_steps = steps.c.state.in_(("queued", "ready", "running"))
    ended = steps.update().where(steps.c.task.in_(mine), open_steps)
    tx.execute(ended.values(state="cancelled", owner=None, epoch=steps.c.epoch + 1, ended_at=now()))
    tx.execute(tasks.update().where(tasks.c.id.in_(mine)).values(state="cancelled", ended_at=now()))
    tx.execute(nodes.delete().where(nodes.c.deployment == name))
    _abandon_addresses(tx, name)
    forget_if_empty(tx, name)


def _abandon_addresses(tx: Tx, name: str) -> None:
    """An address is not given out while a VM that was left behind may answer at it."""
    manned = sa.select(objects.c.node).where(
        objects.c.deployment == name, objects.c.kind == "vm", objects.c.state != "gone", objects.c.node.is_not(None)
    )
    mine = addresses.c.deployment == name
    tx.execute(addresses.delete().where(mine, addresses.c.node.not_in(manned)))
    tx.execute(addresses.update().where(mine).values(deployment=""))


def names(tx: Tx) -> list[str]:
    return list(tx.execute(sa.select(deployments.c.name).order_by(deployments.c.name)).scalars())
