"""Nodes as the API shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from coterie.errors import NotFound, UsageError
from coterie.ledger.rows.conductor_groups import OF_NODE
from coterie.ledger.store import Tx
from coterie.ledger.tables import clouds, nodes, objects, server_groups
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when
from coterie.ledger.visibility import visible

_KEYS = (nodes.c.deployment, nodes.c.instance_group, nodes.c["index"])
_SLOT = re.compile(r"(?:([^/]+)/)?([^/]+)/(\d{1,9})")


def page(tx: Tx, part: Slice, *, conductor_group: str | None = None, **wanted: str | bool | None) -> Page:
    """Filters: deployment, instance_group, az, state, cloud, enrolled; conductor_group: where its work runs."""
    query = matching(_brief(), {nodes.c[name]: value for name, value in wanted.items()})
    found = fetch(tx, matching(query, {OF_NODE: conductor_group}), _KEYS, part, filters=wanted)
    return Page([_view(row) for row in found.items], found.next)


def one(tx: Tx, which: str) -> Row:
    """A node by uuid, deployment/group/index or, enrolled, by name; with how its VM was made and what belongs to it.

    group/index will do where only one deployment has such a node.
    """
    found = [row for meant in _meanings(which) for row in tx.execute(_brief().add_columns(nodes.c.spec).where(meant))]
    if not found:
        raise NotFound(f"no node {which!r}", remedy="list them with `coterie nodes`")
    if len(found) > 1:
        names = sorted(f"{row.deployment}/{row.instance_group}/{row.index}" for row in found)
        raise UsageError(f"several nodes are named {which!r}", remedy=f"say which: {', '.join(names)}")
    row = found[0]._mapping
    return {**_view({**row}), "spec": row["spec"], "objects": _objects(tx, row["uuid"])}


def _meanings(which: str) -> Iterator[sa.ColumnElement[bool]]:
    """What a name may mean; a node of a deployment is no enrolled one."""
    slot = _SLOT.fullmatch(which)
    if slot is None or slot[1] is None:
        yield sa.or_(nodes.c.uuid == which, sa.and_(nodes.c.enrolled.is_(sa.true()), nodes.c.instance_group == which))
    if slot is not None:
        ours = sa.and_(nodes.c.enrolled.is_(sa.false()), nodes.c.instance_group == slot[2])
        within = sa.true() if slot[1] is None else nodes.c.deployment == slot[1]
        yield sa.and_(ours, nodes.c["index"] == int(slot[3]), within)


def _brief() -> sa.Select[Any]:
    group = server_groups.alias("g")
    shown = sa.select(
        nodes.c.uuid,
        nodes.c.deployment,
        nodes.c.instance_group,
        nodes.c["index"],
        nodes.c.az,
        nodes.c.cloud,
        nodes.c.state,
        nodes.c.vm_cid,
        nodes.c.host,
        nodes.c.addresses,
        group.c.name.label("server_group"),
        group.c.cid.label("server_group_cid"),
        nodes.c.conductor_group,
        OF_NODE.label("runs_in_group"),
        nodes.c.problem,
        nodes.c.enrolled,
        nodes.c.created_at,
        nodes.c.updated_at,
    ).select_from(
        nodes.outerjoin(group, group.c.intent == nodes.c.server_group).outerjoin(clouds, clouds.c.name == nodes.c.cloud)
    )
    return shown.where(visible(nodes.c.deployment))


def _view(row: Row) -> Row:
    times = {name: when(row[name]) for name in ("created_at", "updated_at")}
    shown = {**row, "name": f"{row['instance_group']}/{row['index']}", "addresses": row["addresses"] or {}, **times}
    if row["enrolled"]:
        shown.update(name=row["instance_group"], deployment=None, instance_group=None, index=None, az=None)
    return shown


def _objects(tx: Tx, uuid: str) -> list[Row]:
    held = sa.select(objects.c.intent, objects.c.kind, objects.c.cid, objects.c.state, objects.c.size_mb)
    living = sa.and_(objects.c.node == uuid, objects.c.state != "gone")
    return [dict(row._mapping) for row in tx.execute(held.where(living).order_by(objects.c.kind, objects.c.intent))]
