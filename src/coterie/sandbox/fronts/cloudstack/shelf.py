"""What this front remembers beside the datacenter's own rows, in the same file: things by uuid, each with a document.

A thing that is gone keeps its row, since the API still knows the uuids of what it expunged.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.sandbox.twist import Tx

TABLES = (
    "CREATE TABLE IF NOT EXISTS cloudstack_things (id TEXT PRIMARY KEY, kind TEXT NOT NULL, account TEXT NOT NULL, "
    "name TEXT NOT NULL, created_at REAL NOT NULL, gone_at REAL, doc TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS cloudstack_things_by_kind ON cloudstack_things (kind, account, name)",
)
_COLUMNS = "id, kind, account, name, created_at, doc"


@dataclass(slots=True)
class Thing:
    id: str
    kind: str
    account: str
    name: str
    created_at: float
    doc: dict[str, Any]


def put(tx: Tx, kind: str, name: str, doc: Mapping[str, Any], wanted: str | None = None) -> Thing:
    """A new thing of the transaction's account; `wanted` is its uuid where the datacenter made one already."""
    thing = Thing(wanted or tx.ids.uuid(), kind, tx.account, name, tx.now, dict(doc))
    tx.db.execute(
        f"INSERT INTO cloudstack_things ({_COLUMNS}) VALUES (?,?,?,?,?,?)",
        (thing.id, kind, tx.account, name, tx.now, json.dumps(thing.doc)),
    )
    return thing


def get(db: sqlite3.Connection, kind: str, wanted: str) -> Thing | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM cloudstack_things WHERE id = ? AND kind = ? AND gone_at IS NULL", (wanted, kind)
    ).fetchone()
    return _thing(row) if row else None


def doc_of(db: sqlite3.Connection, wanted: str) -> dict[str, Any]:
    """What is remembered beside an object of the datacenter; nothing of what others made there."""
    row = db.execute("SELECT doc FROM cloudstack_things WHERE id = ?", (wanted,)).fetchone()
    found: dict[str, Any] = json.loads(row[0]) if row else {}
    return found


def note(tx: Tx, wanted: str, **changes: Any) -> None:
    """Change some words of a thing's document; None takes a word out."""
    doc = doc_of(tx.db, wanted)
    doc.update(changes)
    kept = json.dumps({key: value for key, value in doc.items() if value is not None})
    tx.db.execute("UPDATE cloudstack_things SET doc = ? WHERE id = ?", (kept, wanted))


def rename(tx: Tx, wanted: str, name: str) -> None:
    tx.db.execute("UPDATE cloudstack_things SET name = ? WHERE id = ?", (name, wanted))


def bury(tx: Tx, wanted: str) -> None:
    tx.db.execute("UPDATE cloudstack_things SET gone_at = ? WHERE id = ?", (tx.now, wanted))


def every(db: sqlite3.Connection, kind: str, account: str | None = None, name: str | None = None) -> Iterator[Thing]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM cloudstack_things WHERE kind = ?1 AND account = coalesce(?2, account) "
        "AND name = coalesce(?3, name) AND gone_at IS NULL ORDER BY created_at, id",
        (kind, account, name),
    ).fetchall()
    return map(_thing, rows)


def was_known(db: sqlite3.Connection, kind: str, wanted: str) -> bool:
    found = db.execute("SELECT 1 FROM cloudstack_things WHERE id = ? AND kind = ?", (wanted, kind)).fetchone()
    return found is not None


def _thing(row: tuple[Any, ...]) -> Thing:
    wanted, kind, account, name, created_at, doc = row
    return Thing(wanted, kind, account, name, created_at, json.loads(doc))
