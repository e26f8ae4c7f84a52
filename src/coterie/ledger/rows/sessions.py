"""Sessions of the web console and its one-time links. The secret is in the browser only, here is its hash."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import sessions

SESSION, LINK = "session", "link"


def add(tx: Tx, key: str, kind: str, caller: dict[str, Any], ttl_s: float) -> None:
    """Also forgets those that have expired."""
    tx.execute(sessions.delete().where(sessions.c.expires_at <= now()))
    values = {"hash": key, "kind": kind, "caller": caller}
    tx.execute(sessions.insert().values(**values, created_at=now(), expires_at=now() + ttl_s))


def caller_of(tx: Tx, key: str) -> dict[str, Any] | None:
    """The caller of a session that has not ended."""
    return _find(tx, key, SESSION)


def link_caller(tx: Tx, key: str) -> dict[str, Any] | None:
    """The caller that a link logs in."""
    return _find(tx, key, LINK)


def take_link(tx: Tx, key: str) -> dict[str, Any] | None:
    """The same, once: the link is gone."""
    found = _find(tx, key, LINK)
    return found if found is not None and tx.execute(sessions.delete().where(sessions.c.hash == key)).rowcount else None


def _find(tx: Tx, key: str, kind: str) -> dict[str, Any] | None:
    valid = sa.and_(sessions.c.hash == key, sessions.c.kind == kind, sessions.c.expires_at > now())
    found: dict[str, Any] | None = tx.execute(sa.select(sessions.c.caller).where(valid)).scalar()
    return found


def end(tx: Tx, key: str) -> None:
    tx.execute(sessions.delete().where(sessions.c.hash == key))
