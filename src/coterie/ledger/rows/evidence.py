"""What the ledger says about marks: the rows behind them, what needs them, and which of them a survey did not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import Kind, Part
from coterie.ledger.rows import parts
from coterie.ledger.rows.objects import OPEN
from coterie.ledger.store import Tx
from coterie.ledger.tables import (
    deployments,
    nodes,
    objects,
    server_group_users,
    server_groups,
    sightings,
    tasks,
)

_GROUP_OPEN = ("intended", "live", "missing", "deleting")


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """The row behind an intent. `state` has the words of `tables.objects`, for server groups too.

    `user`: what needs it ("node web/0"), None when nothing does. `task`: the one at work on its deployment.
    """

    intent: str
    kind: Kind
    cloud: str
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    tombstone: bool
    user: str | None
    task: int | None
    vm_cid: str | None = None  # of the node that it belongs to
    node_state: str | None = None
    parts: tuple[Part, ...] = ()  # what was created beside it


def records(tx: Tx, cloud: str, intents: Sequence[str]) -> dict[str, MarkRecord]:
    """The row behind each intent that the ledger has ever committed, whatever cloud it is in."""
    things = tx.execute(_things().where(objects.c.intent.in_(intents))).all()
    groups = tx.execute(_groups().where(server_groups.c.intent.in_(intents))).all()
    beside = parts.list_of(tx, intents)
    found = _read(tx, cloud, things, groups)
    created = {one.intent: replace(one, parts=tuple(beside[one.intent])) for one in found if one.intent in beside}
    return {one.intent: created.get(one.intent, one) for one in found}


def list_unseen(tx: Tx, cleanup: int, cloud: str, kind: str, before: float, after: str, limit: int) -> list[MarkRecord]:
    """Rows that may be in the cloud, were there before the survey began, and that it did not see; by intent."""
    seen = sa.select(sightings.c.intent).where(
        sightings.c.cleanup == cleanup, sightings.c.cloud == cloud, sightings.c.kind == kind
    )
    if kind == "server_group":
        query = _groups().where(server_groups.c.state.in_(_GROUP_OPEN), server_groups.c.adopted.is_(sa.false()))
        rows = tx.execute(_rest(query, server_groups, cloud, before, after, seen).limit(limit)).all()
        return _read(tx, cloud, [], rows)
    query = _things().where(objects.c.kind == kind, objects.c.state.in_(OPEN))
    rows = tx.execute(_rest(query, objects, cloud, before, after, seen).limit(limit)).all()
    return _read(tx, cloud, rows, [])


def _rest(query: Any, table: sa.Table, cloud: str, before: float, after: str, seen: Any) -> Any:
    return query.where(
        table.c.cloud == cloud,
        table.c.created_at < before,
        table.c.intent > after,
        table.c.intent.not_in(seen),
    ).order_by(table.c.intent)


def _things() -> sa.Select[Any]:
    names = ("intent", "kind", "cloud", "state", "cid", "deployment", "ref", "tombstone")
    return sa.select(
        *[objects.c[name] for name in names],
        objects.c.node,
        nodes.c.uuid.label("owner"),
        nodes.c.vm_intent,
        nodes.c.vm_cid,
        nodes.c.state.label("node_state"),
    ).select_from(objects.outerjoin(nodes, nodes.c.uuid == objects.c.node))


def _groups() -> sa.Select[Any]:
    names = ("intent", "cloud", "state", "cid", "deployment", "name")
    of_group = server_group_users.c.server_group == server_groups.c.intent
    # Named, not `*`: a conductor's role may not read the manifest beside it.
    deployed = sa.exists(deployments.c.name).where(deployments.c.name == server_groups.c.deployment)
    in_use = sa.exists().where(of_group) & deployed
    held = sa.exists().where(nodes.c.server_group == server_groups.c.intent)
    return sa.select(*[server_groups.c[name] for name in names], in_use.label("in_use"), held.label("held"))


def _read(tx: Tx, cloud: str, things: Sequence[Any], groups: Sequence[Any]) -> list[MarkRecord]:
    busy = _busy(tx)
    images = _images_in_use(tx, cloud) if any(row.kind == "image" for row in things) else (set(), False)
    found = [_thing(row, busy, *images) for row in things]
    return found + [_group(row, busy) for row in groups]


def _thing(row: Any, busy: Mapping[str, int], refs: set[str], moving: bool) -> MarkRecord:
    return MarkRecord(
        row.intent,
        row.kind,
        row.cloud,
        row.state,
        row.cid,
        row.deployment,
        row.node,
        row.ref,
        row.tombstone,
        _user(row, refs, moving),
        min(busy.values(), default=None) if row.kind == "image" else busy.get(row.deployment or ""),
        row.vm_cid if row.owner else None,
        row.node_state if row.owner else None,
    )


def _user(row: Any, refs: set[str], moving: bool) -> str | None:
    if row.kind == "image":
        return f"nodes made of {row.ref}" if row.ref in refs else "nodes that are being made" if moving else None
    if row.owner is None or (row.state == "gone" and row.tombstone):
        return None  # a node whose object was given up has another one, or gets one
    if row.kind == "vm" and row.vm_intent != row.intent:
        return None
    return f"node {row.ref}"


def _group(row: Any, busy: Mapping[str, int]) -> MarkRecord:
    user = f"deployment {row.deployment}" if row.in_use or row.held else None
    state = "live" if row.state == "missing" else row.state
    return MarkRecord(
        row.intent,
        "server_group",
        row.cloud,
        state,
        row.cid,
        row.deployment,
        None,
        row.name,
        False,
        user,
        busy.get(row.deployment),
    )


def _busy(tx: Tx) -> dict[str, int]:
    query = sa.select(tasks.c.deployment, sa.func.max(tasks.c.id)).where(
        tasks.c.state.in_(("running", "cancelling")), tasks.c.deployment.is_not(None)
    )
    return dict(tx.execute(query.group_by(tasks.c.deployment)).all())


def _images_in_use(tx: Tx, cloud: str) -> tuple[set[str], bool]:
    """Stemcells of nodes in this cloud; and whether a node is being made, of which nothing is written down yet."""
    stemcell = nodes.c.spec["stemcell"].as_string()
    here = nodes.c.cloud == cloud
    refs = set(tx.execute(sa.select(stemcell).where(here, nodes.c.spec.is_not(None)).distinct()).scalars())
    unsettled = sa.or_(nodes.c.spec.is_(None), nodes.c.state.in_(("planned", "changing")))
    moving = sa.select(nodes.c.uuid).where(here, unsettled, nodes.c.enrolled.is_(sa.false())).limit(1)
    return refs, tx.execute(moving).first() is not None


def find_sighted(tx: Tx, cleanup: int, cloud: str, kind: str, intents: Sequence[str]) -> set[str]:
    """Of these, the ones that the survey has seen on an earlier page: lists shift while they are read."""
    query = sa.select(sightings.c.intent).where(
        sightings.c.cleanup == cleanup,
        sightings.c.cloud == cloud,
        sightings.c.kind == kind,
        sightings.c.intent.in_(intents),
    )
    return set(tx.execute(query).scalars())
