"""Row changes as data: a step collects them, and many steps' changes commit together, one statement per shape.

Inserts run before updates before deletes, whatever order they were collected in; no other order is kept within one
commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from coterie.ledger.file import FileTx
from coterie.ledger.statements import time

if TYPE_CHECKING:
    import sqlalchemy as sa

    from coterie.ledger.statements import Tx

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
        # Rows are locked in the order of their keys, so that two conductors do not wait for each other; a server that
        # joins them in another order may refuse one commit as a deadlock, which is then repeated row by row.
        key = [f"k_{name}" for name in shape[2]]
        rows = sorted(shapes[shape], key=partial(_key_of, key))
        if isinstance(tx, FileTx):
            tx.run_many(_text(*shape), [{name: _as_text(value) for name, value in row.items()} for row in rows])
        elif tx.dialect.name == "postgresql" and not _repeats(rows, key):
            tx.execute(_of_many(tx.dialect, *shape), {"rows": _document(rows)})
        else:
            tx.execute(_statement(*shape), rows)


def insert_many(tx: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows that have the same columns. Their ids are not read: a conductor may add rows that it cannot read."""
    if tx.dialect.name == "postgresql":
        named = [{f"v_{name}": value for name, value in row.items()} for row in rows]
        tx.execute(_of_many(tx.dialect, _ORDER["insert"], table.name, (), tuple(rows[0])), {"rows": _document(named)})
    else:
        tx.execute(table.insert().inline(), rows)


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def _document(rows: list[dict[str, Any]]) -> str:
    """As JSON, without what PostgreSQL does not take in a text: NUL, and halves of surrogate pairs."""
    text = _NUL.sub(r"\1", json.dumps(rows, ensure_ascii=False))
    return text.encode("utf-8", "replace").decode()


def _key_of(names: list[str], row: dict[str, Any]) -> list[str]:
    return [str(row[name]) for name in names]


def _repeats(rows: list[dict[str, Any]], key: list[str]) -> bool:
    """Whether two of them change the same row; one statement would do only one of the two."""
    return bool(key) and any(_key_of(key, one) == _key_of(key, after) for one, after in pairwise(rows))


@cache
def _text(verb: int, table: str, key: tuple[str, ...], values: tuple[str, ...]) -> str:
    same = " AND ".join(f"{_quote(name)} = :k_{name}" for name in key)
    if verb == _ORDER["insert"]:
        into, new = ", ".join(map(_quote, values)), ", ".join(f":v_{name}" for name in values)
        return f"INSERT INTO {table} ({into}) VALUES ({new})"
    if verb == _ORDER["update"]:
        new = ", ".join(f"{_quote(name)} = :v_{name}" for name in values)
        return f"UPDATE {table} SET {new} WHERE {same}"
    return f"DELETE FROM {table} WHERE {same}"


def _as_text(value: Any) -> Any:
    """Columns of JSON hold text; in the tables of BOSH callers they hold mappings only."""
    return json.dumps(value) if isinstance(value, dict) else value


@cache
def _statement(verb: int, table_name: str, key: tuple[str, ...], values: tuple[str, ...]) -> sa.Executable:
    import sqlalchemy as sa  # here, since `coterie-cpi` can do without it

    from coterie.ledger.tables import metadata

    table = metadata.tables[table_name]
    bound = {name: sa.bindparam(f"v_{name}", type_=table.c[name].type) for name in values}
    if verb == _ORDER["insert"]:
        return table.insert().inline().values(bound)
    condition = sa.and_(*(table.c[name] == sa.bindparam(f"k_{name}") for name in key))
    if verb == _ORDER["update"]:
        return table.update().where(condition).values(bound)
    return table.delete().where(condition)


@cache
def _of_many(
    dialect: sa.Dialect, verb: int, table_name: str, key: tuple[str, ...], values: tuple[str, ...]
) -> sa.TextClause:
    """The same for many rows at once: a statement for each row would cost a round trip each. The rows are one JSON
    document, so that the text, and with it the server's plan, does not depend on their number."""
    import sqlalchemy as sa

    from coterie.ledger.tables import metadata

    table = metadata.tables[table_name]
    types = {name: table.c[name].type.compile(dialect) for name in (*key, *values)}
    typed = [*(f"k_{name} {types[name]}" for name in key), *(f"v_{name} {types[name]}" for name in values)]
    rows = f"json_to_recordset(CAST(:rows AS json)) AS given({', '.join(typed)})"
    same = " AND ".join(f"{table_name}.{_quote(name)} = given.k_{name}" for name in key)
    if verb == _ORDER["insert"]:
        into, new = ", ".join(map(_quote, values)), ", ".join(f"v_{name}" for name in values)
        return sa.text(f"INSERT INTO {table_name} ({into}) SELECT {new} FROM {rows}")
    if verb == _ORDER["update"]:
        new = ", ".join(f"{_quote(name)} = given.v_{name}" for name in values)
        return sa.text(f"UPDATE {table_name} SET {new} FROM {rows} WHERE {same}")
    return sa.text(f"DELETE FROM {table_name} USING {rows} WHERE {same}")


def _quote(name: str) -> str:
    return f'"{name}"'
