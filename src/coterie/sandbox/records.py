"""What all objects share: id, account, name, age, revision, tags, and being made, found and removed.

A `Shape` says how one kind is read; nothing here knows what a kind is for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

from coterie.sandbox import tags as tagging
from coterie.sandbox.errors import NoSuch, RevisionDiffers
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

USERS_SHOWN = 100  # longest list of an object's users: what counts is that there are any


@dataclass(frozen=True, slots=True)
class Record:
    """`revision` grows with every change of the object, so it serves as its etag."""

    seq: int
    id: str
    account: str
    name: str
    created_at: float
    revision: int
    tags: Mapping[str, str]


T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """How a kind is read: its table (if any), its own columns as SQL, and the value they become."""

    kind: str
    prefix: str
    table: str | None
    columns: tuple[str, ...]
    value: Callable[..., T]
    own: Callable[[Tx, tuple[Any, ...]], tuple[Any, ...]] = lambda tx, columns: columns


def insert(tx: Tx, shape: Shape[Any], name: str, tags: Mapping[str, str], token: str | None) -> tuple[int, str]:
    """A new object of this kind: its seq and id."""
    made = f"{shape.prefix}-{tx.ids.uuid()}"
    row = tx.db.execute(
        "INSERT INTO objects (id, account, kind, name, created_at, visible_at, token) VALUES (?,?,?,?,?,?,?)",
        (made, tx.account, shape.kind, name, tx.now, tx.now + tx.twist.late_s if tx.twist.late_s else 0, token),
    )
    seq = int(row.lastrowid or 0)
    tagging.write(tx, seq, shape.kind, tags)
    return seq, made


def find_made(tx: Tx, shape: Shape[T], token: str | None) -> T | None:
    """What an earlier call with this client token made, if it still exists."""
    if token is None:
        return None
    return _one(tx, shape, "o.account = ? AND o.kind = ? AND o.token = ?", (tx.account, shape.kind, token))


def fetch(tx: Tx, shape: Shape[T], wanted: str) -> T:
    found = _one(tx, shape, "o.id = ? AND o.account = ? AND o.kind = ?", (wanted, tx.account, shape.kind))
    if found is None:
        raise NoSuch(shape.kind, wanted)
    return found


def revise(tx: Tx, *seqs: int) -> None:
    for seq in seqs:
        tx.db.execute("UPDATE objects SET revision = revision + 1 WHERE seq = ?", (seq,))


def remove(tx: Tx, shape: Shape[Any], seq: int) -> None:
    tx.db.execute("DELETE FROM objects WHERE seq = ?", (seq,))
    tx.db.execute("DELETE FROM tags WHERE object = ?", (seq,))
    if shape.table:
        tx.db.execute(f"DELETE FROM {shape.table} WHERE object = ?", (seq,))


def require_revision(found: Record, wanted: int | None) -> None:
    """Refuse to go on with an object that changed since the caller read it."""
    if wanted is not None and found.revision != wanted:
        raise RevisionDiffers(
            f"{found.id} changed",
            why=f"it is at revision {found.revision}, the caller expects {wanted}",
            remedy="read it again and decide anew",
        )


def _one(tx: Tx, shape: Shape[T], where: str, values: Sequence[Any]) -> T | None:
    row = tx.db.execute(f"{select(shape)} WHERE {where}", values).fetchone()
    return None if row is None else build(tx, shape, row)


@lru_cache(maxsize=64)
def select(shape: Shape[Any], source: str = "objects o") -> str:
    columns = ", ".join(("o.seq, o.id, o.account, o.name, o.created_at, o.revision", tagging.AS_JSON, *shape.columns))
    own = f" JOIN {shape.table} k ON k.object = o.seq" if shape.table else ""
    return f"SELECT {columns} FROM {source}{own}"


def build(tx: Tx, shape: Shape[T], row: tuple[Any, ...]) -> T:
    return shape.value(*row[:6], json.loads(row[6]), *shape.own(tx, row[7:]))
