"""The ledger of cloud objects: the rows behind every mark, and how they move through their life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import Kind
from coterie.ledger.store import Tx
from coterie.ledger.tables import nodes, objects, server_groups, stemcells, steps
from coterie.ledger.writes import NOW, Write, insert, update

OPEN = ("intended", "live", "unknown", "kept", "deleting")  # everything that may be in the cloud


@dataclass(frozen=True, slots=True)
class ObjectRow:
    intent: str
    kind: Kind
    cloud: str
    az: str | None
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    size_mb: int
    properties: dict[str, Any] | None
    doubt_since: float | None


_ROW = tuple(objects.c[name] for name in ObjectRow.__slots__)


def of_node(tx: Tx, node: str) -> list[ObjectRow]:
    """What may still be in the cloud for this node, oldest first."""
    query = sa.select(*_ROW).where(objects.c.node == node, objects.c.state.in_(OPEN)).order_by(objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


def get(tx: Tx, intent: str) -> ObjectRow | None:
    row = tx.execute(sa.select(*_ROW).where(objects.c.intent == intent)).first()
    return ObjectRow(*row) if row else None


def holder_of(tx: Tx, cloud: str, kind: str, cid: str) -> str | None:
    """Which object of the ledger is known by this id and may be in the cloud; None: none is."""
    same = sa.and_(objects.c.cloud == cloud, objects.c.kind == kind, objects.c.cid == cid)
    intent = tx.execute(sa.select(objects.c.intent).where(same, objects.c.state.in_(OPEN))).scalar()
    return f"object {intent} of the ledger" if intent else None


def open_images(tx: Tx) -> list[ObjectRow]:
    query = sa.select(*_ROW).where(objects.c.kind == "image", objects.c.state.in_(("intended", "live", "unknown")))
    return [ObjectRow(*row) for row in tx.execute(query)]


def uploads_under_way(tx: Tx) -> set[str]:
    """Intents of images that a step is going to bring into a cloud."""
    query = sa.select(steps.c.data["intent"].as_string()).where(
        steps.c.flow == "stemcell.upload", steps.c.state.in_(("queued", "ready", "running"))
    )
    return set(tx.execute(query).scalars())


def image_on_its_way(tx: Tx, cloud: str, ref: str) -> bool:
    """Whether the image is there or coming; held against another deployment that is accepted at the same time."""
    name, _, version = ref.rpartition("/")
    cell = (stemcells.c.name == name, stemcells.c.version == version)
    tx.execute(sa.select(stemcells.c.name).where(*cell).with_for_update())
    coming = uploads_under_way(tx)
    rows = [row for row in open_images(tx) if (row.cloud, row.ref) == (cloud, ref)]
    return any(row.state == "live" or row.intent in coming for row in rows)


def stemcell_users(tx: Tx, cloud: str, ref: str) -> int:
    """Nodes that were made from an image, or that an unfinished step is going to make from it."""
    made = sa.select(sa.func.count()).where(nodes.c.cloud == cloud, nodes.c.spec["stemcell"].as_string() == ref)
    coming = sa.select(sa.func.count()).where(
        steps.c.cloud == cloud,
        steps.c.state.in_(("queued", "ready", "running")),
        steps.c.data["wish"]["stemcell"].as_string() == ref,
    )
    return tx.execute(made).scalar_one() + tx.execute(coming).scalar_one()


def images(tx: Tx, refs: Sequence[str]) -> list[ObjectRow]:
    """What clouds hold, or may hold, of these stemcells."""
    query = sa.select(*_ROW).where(
        objects.c.kind == "image", objects.c.ref.in_(sorted(refs)), objects.c.state.in_(OPEN)
    )
    return [ObjectRow(*row) for row in tx.execute(query)]


def kept_disks(tx: Tx, deployment: str) -> list[ObjectRow]:
    """Those of nodes that are gone, and those whose deletion was asked for and did not come to its end."""
    query = sa.select(*_ROW).where(
        objects.c.deployment == deployment,
        objects.c.kind == "disk",
        objects.c.state.in_(("kept", "deleting")),
        objects.c.node.is_(None),
        objects.c.cid.is_not(None),
    )
    return [ObjectRow(*row) for row in tx.execute(query.order_by(objects.c.intent))]


def kept_ones(tx: Tx) -> list[ObjectRow]:
    """Disks and snapshots in their undo window."""
    query = sa.select(*_ROW).where(objects.c.state == "kept", objects.c.cid.is_not(None)).order_by(objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


# -- the moves of a life; `intended` is always committed before the cloud is called --


def intend(
    intent: str,
    kind: Kind,
    cloud: str,
    *,
    az: str | None = None,
    deployment: str | None = None,
    node: str | None = None,
    ref: str | None = None,
    size_mb: int = 0,
    properties: dict[str, Any] | None = None,
) -> Write:
    return insert(
        "objects",
        intent=intent,
        kind=kind,
        cloud=cloud,
        az=az,
        state="intended",
        deployment=deployment,
        node=node,
        ref=ref,
        size_mb=size_mb,
        properties=properties,
        created_at=NOW,
    )


def landed(intent: str, cid: str) -> Write:
    return update("objects", {"intent": intent}, state="live", cid=cid, doubt_since=None)


def doubted(intent: str) -> Write:
    return update("objects", {"intent": intent}, state="unknown", doubt_since=NOW)


def deleting(intent: str, cid: str) -> Write:
    return update("objects", {"intent": intent}, state="deleting", cid=cid)


def gone(intent: str, *, tombstone: bool = False) -> Write:
    return update("objects", {"intent": intent}, state="gone", tombstone=tombstone, ended_at=NOW)


def kept(intent: str) -> Write:
    return update("objects", {"intent": intent}, state="kept", node=None)


def resized(intent: str, size_mb: int) -> Write:
    return update("objects", {"intent": intent}, size_mb=size_mb)


def reshaped(intent: str, cid: str, size_mb: int, properties: dict[str, Any]) -> Write:
    return update("objects", {"intent": intent}, cid=cid, size_mb=size_mb, properties=properties)


def clouds_in_use(tx: Tx) -> list[str]:
    """Those that hold, or may hold, anything of ours."""
    held = sa.select(objects.c.cloud).where(objects.c.state.in_(OPEN))
    grouped = sa.select(server_groups.c.cloud).where(server_groups.c.state != "gone")
    return list(tx.execute(held.union(grouped)).scalars())
