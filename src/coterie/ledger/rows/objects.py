"""Cloud objects as a Director reads and changes them, beside what `object_life` has for every program."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.rows.object_life import (
    OPEN,
    UNDELIVERED,
    ObjectRow,
    all_by_cid,
    begin_delete,
    begin_replace,
    by_cid,
    end_delete,
    get,
    give_up,
    intend,
    keep,
    keep_for_undo,
    list_undelivered_vms,
    members,
    of_agent,
    of_caller,
    record_created,
    record_delivered,
    record_disk_update,
    record_gone,
    record_late,
    record_size,
    record_unknown,
)
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import nodes, objects, server_groups, stemcells, steps
from coterie.ledger.visibility import visible

__all__ = [  # beside what is defined here
    "OPEN",
    "UNDELIVERED",
    "ObjectRow",
    "all_by_cid",
    "begin_delete",
    "begin_replace",
    "by_cid",
    "end_delete",
    "get",
    "give_up",
    "intend",
    "keep",
    "keep_for_undo",
    "list_undelivered_vms",
    "members",
    "of_agent",
    "of_caller",
    "record_created",
    "record_delivered",
    "record_disk_update",
    "record_gone",
    "record_late",
    "record_size",
    "record_unknown",
]

_ROW = tuple(objects.c[name] for name in ObjectRow.__slots__)


def of_node(tx: Tx, node: str) -> list[ObjectRow]:
    """What may still be in the cloud for this node, oldest first."""
    query = sa.select(*_ROW).where(objects.c.node == node, objects.c.state.in_(OPEN)).order_by(objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


def disks_of_node(tx: Tx, node: str) -> tuple[ObjectRow | None, list[ObjectRow]]:
    """The one that it has, and those that may still be attached to its VM although another one takes their place."""
    rows = [row for row in of_node(tx, node) if row.kind == "disk"]
    return next((row for row in rows if row.state != "kept"), None), [row for row in rows if row.state == "kept"]


def refuse_attached(disk: ObjectRow) -> None:
    """One that is to be kept, but its exchange is under way or did not end."""
    if disk.state == "kept" and disk.node is not None:
        raise Conflict(
            f"disk {disk.cid} is still attached",
            why=f"{disk.ref} gets another one in its place, and has not let go of it",
            remedy=f"wait for that task; if it failed, deploy {disk.deployment} again",
        )


_GIVEN_UP = sa.and_(objects.c.state == "gone", objects.c.tombstone.is_(sa.true()))
"""Nothing was found under the mark when its creation was given up; an object that carries it came late."""


def list_given_up_of_node(tx: Tx, node: str) -> list[ObjectRow]:
    query = sa.select(*_ROW).where(objects.c.node == node, _GIVEN_UP).order_by(objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


def list_given_up_vms(tx: Tx, cloud: str, deployment: str | None = None) -> list[ObjectRow]:
    """Of this deployment, or of all of them."""
    query = sa.select(*_ROW).where(objects.c.cloud == cloud, objects.c.kind == "vm", _GIVEN_UP)
    if deployment is not None:
        query = query.where(objects.c.deployment == deployment)
    return [ObjectRow(*row) for row in tx.execute(query.order_by(objects.c.intent))]


def note_arrival(tx: Tx, intent: str, cid: str) -> bool:
    """Note the id of an object whose creation was given up, or is about to be; True if it was given up."""
    unsettled = sa.or_(_GIVEN_UP, objects.c.state.in_(("intended", "unknown")))
    noted = (
        objects.update()
        .where(objects.c.intent == intent, objects.c.cid.is_(None), unsettled)
        .values(cid=cid, late_at=now())
        .returning(objects.c.state)
    )
    return tx.execute(noted).scalar() == "gone"


def holder_of(tx: Tx, cloud: str, kind: str, cid: str) -> str | None:
    """Which object of the ledger is known by this id and may be in the cloud; None: none is."""
    same = sa.and_(objects.c.cloud == cloud, objects.c.kind == kind, objects.c.cid == cid)
    intent = tx.execute(sa.select(objects.c.intent).where(same, objects.c.state.in_(OPEN))).scalar()
    return f"object {intent} of the ledger" if intent else None


_open_images = sa.select(*_ROW).where(objects.c.kind == "image", objects.c.state.in_(("intended", "live", "unknown")))


def open_images(tx: Tx) -> list[ObjectRow]:
    return [ObjectRow(*row) for row in tx.execute(_open_images)]


def uploads_under_way(tx: Tx) -> set[str]:
    """Intents of images that a step is going to bring into a cloud."""
    query = sa.select(steps.c.data["intent"].as_string()).where(
        steps.c.flow == "stemcell.upload", steps.c.state.in_(("queued", "ready", "running"))
    )
    return set(tx.execute(query).scalars())


def image_on_its_way(tx: Tx, cloud: str, ref: str) -> bool:
    """Whether the image is there or coming; locked against another deployment that is accepted at the same time, and
    against a deletion of the image, until this transaction ends."""
    name, _, version = ref.rpartition("/")
    cell = (stemcells.c.name == name, stemcells.c.version == version)
    tx.execute(sa.select(stemcells.c.name).where(*cell).with_for_update())
    coming = uploads_under_way(tx)
    locked = _open_images.where(objects.c.cloud == cloud, objects.c.ref == ref).with_for_update(key_share=True)
    rows = [ObjectRow(*row) for row in tx.execute(locked)]
    return any(row.state == "live" or row.intent in coming for row in rows)


def has_other_image(tx: Tx, image: ObjectRow) -> bool:
    """Whether the cloud has, or gets, the same stemcell a second time."""
    same = (objects.c.cloud == image.cloud, objects.c.ref == image.ref, objects.c.intent != image.intent)
    coming = uploads_under_way(tx)
    return any(row.state == "live" or row.intent in coming for row in tx.execute(_open_images.where(*same)))


def stemcell_users(tx: Tx, cloud: str, ref: str) -> int:
    """Nodes that were made from an image, or that an unfinished step is going to make from it, of any site."""
    if tx.dialect.name == "postgresql":  # a conductor's role sees steps of its own site only
        query = sa.text("SELECT coterie_stemcell_users(:cloud, :ref)")
        users: int = tx.execute(query, {"cloud": cloud, "ref": ref}).scalar_one()
        return users
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
    """Those of nodes that are gone, and those whose deletion was begun and not finished, as far as they are visible."""
    query = sa.select(*_ROW).where(
        objects.c.deployment == deployment,
        visible(objects.c.deployment),
        objects.c.kind == "disk",
        objects.c.state.in_(("kept", "deleting")),
        objects.c.node.is_(None),
        objects.c.cid.is_not(None),
    )
    return [ObjectRow(*row) for row in tx.execute(query.order_by(objects.c.intent))]


def lock(tx: Tx, intent: str) -> ObjectRow | None:
    """The row, which no other transaction changes until this one ends."""
    row = tx.execute(sa.select(*_ROW).where(objects.c.intent == intent).with_for_update()).first()
    return ObjectRow(*row) if row else None


def give_disk(tx: Tx, intent: str, node: str, deployment: str, ref: str) -> bool:
    """A kept disk becomes the disk of this node; False: it is not kept any more."""
    kept = objects.update().where(objects.c.intent == intent, objects.c.state == "kept", objects.c.node.is_(None))
    given = kept.values(state="live", node=node, deployment=deployment, ref=ref)
    return tx.execute(given).rowcount == 1


def begin_delete_kept(tx: Tx, intent: str) -> bool:
    """False: a node has got the disk meanwhile, or it is gone."""
    free = objects.c.state.in_(("kept", "deleting")), objects.c.node.is_(None)
    doomed = objects.update().where(objects.c.intent == intent, *free).values(state="deleting")
    return tx.execute(doomed).rowcount == 1


def rename_of_node(tx: Tx, node: str, ref: str) -> None:
    """What belongs to a node goes by the node's name."""
    mine = objects.c.node == node, objects.c.kind.in_(("vm", "disk"))
    tx.execute(objects.update().where(*mine).values(ref=ref))


def kept_ones(tx: Tx) -> list[ObjectRow]:
    """Disks and snapshots in their undo window."""
    query = sa.select(*_ROW).where(objects.c.state == "kept", objects.c.cid.is_not(None)).order_by(objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


def clouds_in_use(tx: Tx) -> list[str]:
    """Those that hold, or may hold, anything of ours."""
    held = sa.select(objects.c.cloud).where(objects.c.state.in_(OPEN))
    grouped = sa.select(server_groups.c.cloud).where(server_groups.c.state != "gone")
    return list(tx.execute(held.union(grouped)).scalars())


def callers(tx: Tx) -> list[tuple[str, str, str, int]]:
    """Every BOSH caller with its clouds: uuid, cloud, kind, and how many of it may be in the cloud."""
    query = (
        sa.select(objects.c.director, objects.c.cloud, objects.c.kind, sa.func.count())
        .where(objects.c.director.is_not(None), objects.c.state.in_(OPEN))
        .group_by(objects.c.director, objects.c.cloud, objects.c.kind)
        .order_by(objects.c.director, objects.c.cloud, objects.c.kind)
    )
    return [(str(director), str(cloud), str(kind), int(count)) for director, cloud, kind, count in tx.execute(query)]
