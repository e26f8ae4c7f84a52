"""Enrolled nodes: machines that we did not create. They have no objects and no deployment, only a row of their own."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.rows import objects
from coterie.ledger.rows.nodes import NodeRow, of_vm
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import clouds, nodes, steps

NO_DEPLOYMENT = ""


def hold(tx: Tx, cloud: str) -> None:
    """Serialise enrolments in one cloud, so that two requests cannot take the same machine."""
    tx.execute(sa.select(clouds.c.name).where(clouds.c.name == cloud).with_for_update())


def user_of(tx: Tx, cloud: str, cid: str) -> str | None:
    """Who has this VM already: a node, or an object of ours that no node uses any more."""
    node = of_vm(tx, cloud, cid)
    if node is not None:
        return _full_name(node)
    return objects.holder_of(tx, cloud, "vm", cid)


def named(tx: Tx, name: str) -> bool:
    mine = sa.select(nodes.c.uuid).where(nodes.c.enrolled.is_(sa.true()), nodes.c.instance_group == name)
    return tx.execute(mine).first() is not None


def add(tx: Tx, uuid: str, name: str, *, cloud: str, cid: str, group: str | None) -> None:
    """It is there, and so up until the next look."""
    values = {
        "uuid": uuid,
        "deployment": NO_DEPLOYMENT,
        "instance_group": name,
        "index": 0,
        "az": "",
        "cloud": cloud,
        "conductor_group": group,
        "state": "up",
        "vm_cid": cid,
        "addresses": {},
        "enrolled": True,
    }
    try:
        tx.execute(nodes.insert().values(**values, created_at=now(), updated_at=now()))
    except sa.exc.IntegrityError as taken:  # in another cloud, at the same moment
        raise name_taken(name) from taken


def name_taken(name: str) -> Conflict:
    return Conflict(f"there is an enrolled node {name} already", remedy="give another name: --name NAME")


def among(tx: Tx, cloud: str, cids: Sequence[str]) -> dict[str, str]:
    """Of these VMs, the enrolled ones, with the names of their nodes."""
    query = sa.select(nodes.c.vm_cid, nodes.c.instance_group).where(
        nodes.c.enrolled.is_(sa.true()), nodes.c.cloud == cloud, nodes.c.vm_cid.in_(cids)
    )
    return {str(cid): str(name) for cid, name in tx.execute(query)}


def clouds_of(tx: Tx) -> set[str]:
    return set(tx.execute(sa.select(nodes.c.cloud).where(nodes.c.enrolled.is_(sa.true())).distinct()).scalars())


def working_on(tx: Tx, uuid: str) -> int | None:
    """The task that has an unfinished step for this node."""
    open_steps = sa.select(steps.c.task).where(steps.c.node == uuid, steps.c.state.in_(("queued", "ready", "running")))
    return tx.execute(open_steps.limit(1)).scalar()


def _full_name(node: NodeRow) -> str:
    return f"node {node.name}" if node.enrolled else f"node {node.deployment}/{node.name}"
