"""Row changes as data: a step collects them, and many steps' changes commit together, one statement per shape.

Inserts run before updates before deletes, whatever order they were collected in; no other order is kept within one
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from coterie.ledger.store import Tx, time
from coterie.ledger.tables import metadata

Verb = Literal["insert", "update", "delete"]
_ORDER: dict[Verb, int] = {"insert": 0, "update": 1, "delete": 2}


class After(NamedTuple):
    """Stands for a moment by the database's clock: so many seconds after the commit."""

    seconds: float


NOW = After(0.0)


class Write(NamedTuple):
    verb: Verb
    table: str
    key: Mapping[str, Any]
    values: Mapping[str, Any]


def insert(table: str, **values: Any) -> Write:
    return Write("insert", table, {}, values)


def update(table: str, key: Mapping[str, Any], **values: Any) -> Write:
    return Write("update", table, key, values)


def delete(table: str, key: Mapping[str, Any]) -> Write:
    return Write("delete", table, key, {})


def execute(tx: Tx, *writes: Write) -> None:
    """Execute them now, for callers that are no steps. No two of them may change the same row."""
    apply(tx, writes, time(tx))


def apply(tx: Tx, writes: Iterable[Write], at: float) -> None:
    """Execute all of them, grouped by shape, so that the cost is per row and not per statement.

    `at` is the database's time of this transaction.
    """
    shapes: dict[tuple[int, str, tuple[str, ...], tuple[str, ...]], list[dict[str, Any]]] = {}
    for write in writes:
        shape = (_ORDER[write.verb], write.table, tuple(write.key), tuple(write.values))
        row = {f"k_{name}": value for name, value in write.key.items()}
        for name, value in write.values.items():
            row[f"v_{name}"] = at + value.seconds if type(value) is After else value
        shapes.setdefault(shape, []).append(row)
    for shape in sorted(shapes):
        # Every commit locks rows in the order of their keys: two conductors cannot wait for each other.
        key = [f"k_{name}" for name in shape[2]]
        shapes[shape].sort(key=partial(_key_of, key))
        tx.execute(_statement(*shape), shapes[shape])


def _key_of(names: list[str], row: dict[str, Any]) -> list[str]:
    return [str(row[name]) for name in names]


@cache
def _statement(verb: int, table_name: str, key: tuple[str, ...], values: tuple[str, ...]) -> sa.Executable:
    table = metadata.tables[table_name]
    bound = {name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in values}
    if verb == _ORDER["insert"]:
        return table.insert().inline().values(bound)
    condition = sa.and_(*(table.c[name] == sa.bindparam(f"k_{name}") for name in key))
    if verb == _ORDER["update"]:
        return table.update().where(condition).values(bound)
    return table.delete().where(condition)
