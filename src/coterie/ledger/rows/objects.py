"""Cloud objects: the row behind every mark, and its life from the intent on. For the Director and for BOSH callers.

Each move of a life is a `Write`: steps collect them for their commit, other callers execute them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import Kind
from coterie.errors import Conflict
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import nodes, objects, server_groups, stemcells, steps
from coterie.ledger.visibility import visible
from coterie.ledger.writes import NOW, Write, insert, update

OPEN = ("intended", "live", "unknown", "kept", "deleting")  # everything that may be in the cloud


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """`director`: the uuid of a BOSH caller; None for what our own Director makes."""

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
    director: str | None
    server_group: str | None
    created_at: float

    @property
    def may_exist(self) -> bool:
        """Whether it may be in the cloud."""
        return self.state in OPEN

    @property
    def is_undelivered(self) -> bool:
        """Whether its caller has not received the id, as far as is known."""
        return bool((self.properties or {}).get(UNDELIVERED))


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


def get(tx: Tx, intent: str) -> ObjectRow | None:
    row = tx.execute(sa.select(*_ROW).where(objects.c.intent == intent)).first()
    return ObjectRow(*row) if row else None


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


# -- objects of BOSH callers, each with the caller's uuid --


def of_agent(tx: Tx, cloud: str, director: str, agent_id: str) -> list[ObjectRow]:
    """Every VM that was ever begun for this agent, oldest first."""
    mine = sa.and_(objects.c.kind == "vm", objects.c.cloud == cloud, objects.c.director == director)
    query = sa.select(*_ROW).where(mine, objects.c.ref == agent_id).order_by(objects.c.created_at, objects.c.intent)
    return [ObjectRow(*row) for row in tx.execute(query)]


def by_cid(tx: Tx, kind: Kind, cloud: str, director: str, cid: str) -> ObjectRow | None:
    return next((row for row in all_by_cid(tx, kind, cloud, cid) if row.director == director), None)


def all_by_cid(tx: Tx, kind: Kind, cloud: str, cid: str) -> list[ObjectRow]:
    """What is known by this id and may be in the cloud, whichever Director created it."""
    same = sa.and_(objects.c.cid == cid, objects.c.kind == kind, objects.c.cloud == cloud)
    return [ObjectRow(*row) for row in tx.execute(sa.select(*_ROW).where(same, objects.c.state.in_(OPEN)))]


def of_caller(tx: Tx, cloud: str, director: str) -> list[ObjectRow]:
    """Everything that was ever begun for this caller in this cloud."""
    query = sa.select(*_ROW).where(objects.c.cloud == cloud, objects.c.director == director)
    return [ObjectRow(*row) for row in tx.execute(query)]


UNDELIVERED = "undelivered"  # a note among the properties: the caller has not received the answer of the create


def list_undelivered_vms(tx: Tx, cloud: str, director: str) -> list[ObjectRow]:
    """Those that may be in the cloud, although their caller never received the id."""
    mine = sa.and_(objects.c.kind == "vm", objects.c.cloud == cloud, objects.c.director == director)
    noted = objects.c.properties[UNDELIVERED].as_boolean()
    return [ObjectRow(*row) for row in tx.execute(sa.select(*_ROW).where(mine, objects.c.state.in_(OPEN), noted))]


def callers(tx: Tx) -> list[tuple[str, str, str, int]]:
    """Every BOSH caller with its clouds: uuid, cloud, kind, and how many of it may be in the cloud."""
    query = (
        sa.select(objects.c.director, objects.c.cloud, objects.c.kind, sa.func.count())
        .where(objects.c.director.is_not(None), objects.c.state.in_(OPEN))
        .group_by(objects.c.director, objects.c.cloud, objects.c.kind)
        .order_by(objects.c.director, objects.c.cloud, objects.c.kind)
    )
    return [(str(director), str(cloud), str(kind), int(count)) for director, cloud, kind, count in tx.execute(query)]


def members(tx: Tx, group_cid: str) -> set[str]:
    """Intents of VMs made for this group that may be in the cloud."""
    mine = objects.c.server_group == group_cid, objects.c.kind == "vm", objects.c.state.in_(OPEN)
    return set(tx.execute(sa.select(objects.c.intent).where(*mine)).scalars())


# -- the moves of a life; an intent is always committed before the cloud is called --


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
    director: str | None = None,
    server_group: str | None = None,
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
        director=director,
        server_group=server_group,
        created_at=NOW,
    )


def record_created(intent: str, cid: str, properties: dict[str, Any] | None = None) -> Write:
    """It is in the cloud, under this id. Without `properties` those of the intent stay."""
    more = {} if properties is None else {"properties": properties}
    return _change(intent, state="live", cid=cid, doubt_since=None, **more)


def record_delivered(row: ObjectRow) -> Write:
    """The caller has the id."""
    notes = {key: value for key, value in (row.properties or {}).items() if key != UNDELIVERED}
    return _change(row.intent, properties=notes)


def record_unknown(intent: str, since: float | None = None) -> Write:
    """The answer of the cloud was lost. `since`: an earlier loss from which the settle time goes on counting."""
    return _change(intent, state="unknown", doubt_since=NOW if since is None else since)


def begin_delete(intent: str, cid: str) -> Write:
    return _change(intent, state="deleting", cid=cid)


def end_delete(intent: str, state: str) -> Write:
    """The deletion certainly did not happen: back to the state before it."""
    return _change(intent, state=state)


def record_gone(intent: str, *, tombstone: bool = False) -> Write:
    """`tombstone`: nothing was ever seen under this mark; an object that comes later is an orphan."""
    return _change(intent, state="gone", tombstone=tombstone, ended_at=NOW, late_at=None)


def give_up(intent: str) -> Write:
    """Nothing was found under this mark. If the object comes, or was noted already, it came late."""
    return _change(intent, state="gone", tombstone=True, ended_at=NOW)


def record_late(intent: str, cid: str) -> Write:
    """The creation was given up, and all the same the object is there."""
    return _change(intent, cid=cid, late_at=NOW)


def keep(intent: str) -> Write:
    """No node has it any more, and it stays in the cloud."""
    return _change(intent, state="kept", node=None)


def begin_replace(intent: str) -> Write:
    """Its node has another disk by the ledger, and this one is attached to its VM until it is kept."""
    return _change(intent, state="kept")


def keep_for_undo(intent: str, cid: str) -> Write:
    """The same for an object that a cleanup found; its row may have ended before."""
    return _change(intent, state="kept", node=None, cid=cid, tombstone=False, ended_at=None, late_at=None)


def record_size(intent: str, size_mb: int) -> Write:
    return _change(intent, size_mb=size_mb)


def record_disk_update(intent: str, cid: str, size_mb: int, properties: dict[str, Any]) -> Write:
    """Some clouds answer an update with another disk: it goes on under the same intent."""
    return _change(intent, cid=cid, size_mb=size_mb, properties=properties)


def _change(intent: str, **values: Any) -> Write:
    return update("objects", {"intent": intent}, **values)
