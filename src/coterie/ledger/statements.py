"""Statements as text, for the rows that `coterie-cpi` reads and writes in every call: the same text runs on SQLite by
`file`, and on SQLite and PostgreSQL by `store`. Nothing here imports SQLAlchemy before it is needed.

In a text `{now}` is the database's clock in seconds since 1970, `{for_update}` locks the rows that were read, and
`{values}` is the set in the JSON list that goes by the name `values`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from coterie.ledger.file import FileTx

if TYPE_CHECKING:
    import sqlalchemy as sa

    Tx = FileTx | sa.Connection

_WORDS = {
    "sqlite": {
        "now": "((julianday('now') - 2440587.5) * 86400.0)",
        "for_update": "",
        "values": "(SELECT value FROM json_each(:values))",
    },
    "postgresql": {
        "now": "cast(extract(epoch from clock_timestamp()) as double precision)",
        "for_update": "FOR UPDATE",
        "values": "(SELECT json_array_elements_text(CAST(:values AS json)))",
    },
}


def run(tx: Tx, text: str, **values: Any) -> Any:
    """A cursor: `fetchone`, `fetchall`, `rowcount`."""
    if isinstance(tx, FileTx):
        return tx.run(_of_dialect(text, "sqlite"), values)
    return tx.execute(_of_alchemy(text, tx.dialect.name), values)


def time(tx: Tx) -> float:
    """The database's time now, in seconds since 1970."""
    found: float = run(tx, "SELECT {now}").fetchone()[0]
    return found


def document(value: Any) -> Any:
    """What a JSON column holds: SQLite answers its text."""
    return json.loads(value) if isinstance(value, str) else value


@cache
def _of_dialect(text: str, dialect: str) -> str:
    for word, means in _WORDS[dialect].items():
        text = text.replace(f"{{{word}}}", means)
    return text


@cache
def _of_alchemy(text: str, dialect: str) -> sa.TextClause:
    import sqlalchemy as sa

    return sa.text(_of_dialect(text, dialect))
