"""Replies that were given under an Idempotency-Key. Status 0: the first request is still being worked on."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import replies


class Reply(NamedTuple):
    request: str
    status: int
    body: dict[str, Any]


def get(tx: Tx, key: str) -> Reply | None:
    query = sa.select(replies.c.request, replies.c.status, replies.c.body).where(replies.c.key == key)
    row = tx.execute(query).first()
    return Reply(row.request, row.status, row.body or {}) if row else None


def reserve(tx: Tx, key: str, request: str) -> None:
    """The first request under this key begins. Raises KeyTaken if another process was faster."""
    tx.execute(replies.insert().values(key=key, request=request, status=0, created_at=now()))


def renew(tx: Tx, key: str) -> None:
    """The first request is still being worked on."""
    tx.execute(replies.update().where(replies.c.key == key, replies.c.status == 0).values(created_at=now()))


def record(tx: Tx, key: str, status: int, body: dict[str, Any]) -> None:
    """What a repetition will get."""
    tx.execute(replies.update().where(replies.c.key == key).values(status=status, body=body))


def release(tx: Tx, key: str) -> None:
    tx.execute(replies.delete().where(replies.c.key == key))


def forget_old(tx: Tx, keep_s: float, busy_s: float) -> None:
    """Drop replies older than `keep_s`, and reservations older than `busy_s`: their process died. A few at a time."""
    age = now() - replies.c.created_at
    over = sa.or_(age > keep_s, sa.and_(replies.c.status == 0, age > busy_s))
    tx.execute(replies.delete().where(replies.c.key.in_(sa.select(replies.c.key).where(over).limit(100))))
