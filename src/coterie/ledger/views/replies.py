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


def outdated(tx: Tx, keep_s: float, busy_s: float) -> list[str]:
    """Keys whose time is over, a few at a time."""
    age = now() - replies.c.created_at
    over = sa.or_(age > keep_s, sa.and_(replies.c.status == 0, age > busy_s))
    return list(tx.execute(sa.select(replies.c.key).where(over).limit(100)).scalars())
