"""How many rows are in which state: for the metrics page and for those who ask whether anything is going on."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import nodes, objects, steps, tasks

Counts = dict[tuple[str, ...], int]


def tasks_by_state(tx: Tx) -> Counts:
    return _counted(tx, tasks.c.state)


def steps_by_state(tx: Tx) -> Counts:
    return _counted(tx, steps.c.state)


def objects_by_kind_and_state(tx: Tx) -> Counts:
    return _counted(tx, objects.c.kind, objects.c.state)


def nodes_by_state(tx: Tx) -> Counts:
    return _counted(tx, nodes.c.state)


def _counted(tx: Tx, *columns: sa.Column[str]) -> Counts:
    query = sa.select(*columns, sa.func.count()).group_by(*columns).order_by(*columns)
    return {tuple(map(str, row[:-1])): int(row[-1]) for row in tx.execute(query)}
