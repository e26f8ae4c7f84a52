"""Rows of the memory of cloud objects, disks among them, as the API shows them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.store import Tx
from coterie.ledger.tables import nodes, objects
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when
from coterie.ledger.visibility import visible

# an object that was seen after its creation had been given up is shown as late
_late = sa.and_(objects.c.state == "gone", objects.c.late_at.is_not(None))
_seen_state = sa.case((_late, "late"), else_=objects.c.state)
_STORED = ("intended", "live", "unknown", "kept", "deleting")  # these are found by an index


def page(tx: Tx, part: Slice, *, state: str | None = None, **wanted: str | None) -> Page:
    """Filters: kind, state, cloud, deployment. Oldest first."""
    query = matching(_all(), {objects.c[name]: value for name, value in wanted.items()})
    query = matching(query, {objects.c.state: state} if state in _STORED else {_seen_state: state})
    found = fetch(tx, query, [objects.c.intent], part)
    return Page([_view(row) for row in found.items], found.next)


def one(tx: Tx, intent: str) -> Row:
    row = tx.execute(_all().where(objects.c.intent == intent)).first()
    if row is None:
        raise NotFound(f"no object {intent!r}", remedy="list them with GET /v1/objects")
    return _view(dict(row._mapping))


def disks(tx: Tx, part: Slice, **wanted: str | None) -> Page:
    """Disks that are or may be in a cloud: attached, kept for the undo window, or in between."""
    query = matching(_disks(), {objects.c[name]: value for name, value in wanted.items()})
    found = fetch(tx, query, [objects.c.intent], part)
    return Page([_disk(row) for row in found.items], found.next)


def disk(tx: Tx, intent: str) -> Row:
    row = tx.execute(_disks().where(objects.c.intent == intent)).first()
    if row is None:
        raise NotFound(f"no disk {intent!r}", remedy="list them with `coterie disks`")
    return _disk(dict(row._mapping))


def _all() -> sa.Select[Any]:
    shown = [column for column in objects.c if column.name != "state"]
    return sa.select(*shown, _seen_state.label("state")).where(visible(objects.c.deployment))


def _disks() -> sa.Select[Any]:
    owned = objects.outerjoin(nodes, nodes.c.uuid == objects.c.node)
    return (
        sa.select(
            objects.c.intent,
            objects.c.cid,
            objects.c.cloud,
            objects.c.az,
            objects.c.state,
            objects.c.size_mb,
            objects.c.deployment,
            objects.c.ref,
            nodes.c.uuid.label("node"),
            nodes.c.vm_cid,
            objects.c.created_at,
        )
        .select_from(owned)
        .where(objects.c.kind == "disk", objects.c.state != "gone", visible(objects.c.deployment))
    )


def _disk(row: Row) -> Row:
    return {**row, "created_at": when(row["created_at"])}


def _view(row: Row) -> Row:
    return {**row, **{name: when(row[name]) for name in ("created_at", "doubt_since", "ended_at")}}
