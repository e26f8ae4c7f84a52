"""How many rows are in which state: for the metrics page, and to find out whether any work is under way."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.ledger.rows import deployments
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import nodes, objects, steps, tasks

Counts = dict[tuple[str, ...], float]


def tasks_by_state(tx: Tx) -> Counts:
    return _counted(tx, tasks.c.state)


def steps_by_state(tx: Tx) -> Counts:
    return _counted(tx, steps.c.state)


def task_ages(tx: Tx) -> Counts:
    """Of the oldest task of each kind that has not ended, in seconds."""
    age = (now() - sa.func.min(tasks.c.created_at)).label("age")
    query = sa.select(tasks.c.kind, age).where(tasks.c.state.in_(("running", "cancelling"))).group_by(tasks.c.kind)
    return {(str(kind),): max(0.0, float(found)) for kind, found in tx.execute(query)}


def task_seconds(tx: Tx) -> Counts:
    """What tasks took together, by kind and state. The looks are forgotten after a while, so they are left out."""
    return _ended(tx, sa.func.sum(tasks.c.ended_at - tasks.c.created_at))


def tasks_ended(tx: Tx) -> Counts:
    return _ended(tx, sa.func.count())


def _ended(tx: Tx, what: sa.ColumnElement[Any]) -> Counts:
    query = sa.select(tasks.c.kind, tasks.c.state, what).where(tasks.c.ended_at.is_not(None), tasks.c.kind != "look")
    rows = tx.execute(query.group_by(tasks.c.kind, tasks.c.state).order_by(tasks.c.kind, tasks.c.state))
    return {(str(kind), str(state)): float(found) for kind, state, found in rows}


def objects_by_kind_and_state(tx: Tx) -> Counts:
    return _counted(tx, objects.c.kind, objects.c.state)


def unfinished_deployments(tx: Tx) -> Counts:
    return {(): float(len(deployments.unfinished(tx)))}


def nodes_by_state(tx: Tx) -> Counts:
    return _counted(tx, nodes.c.state)


def _counted(tx: Tx, *columns: sa.Column[str]) -> Counts:
    query = sa.select(*columns, sa.func.count()).group_by(*columns).order_by(*columns)
    return {tuple(map(str, row[:-1])): int(row[-1]) for row in tx.execute(query)}
