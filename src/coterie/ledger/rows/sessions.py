"""Sessions of the web console and its one-time links. The secret is in the browser only, here is its hash."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import sessions
from coterie.ledger.views.page import Page, Row, Slice, fetch, when

SESSION, LINK = "session", "link"
_short_id = sa.func.substr(
    sessions.c.hash, 1, 16, type_=sa.Text()
)  # 64 bits of the hash of 256 random ones open nothing
_SHOWN = ("name", "role", "teams", "how", "detail")  # of the caller


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


def page(tx: Tx, part: Slice, name: str | None = None) -> Page:
    """Sessions that have not ended, the oldest first; of all callers, or of those with this name."""
    query = sa.select(_short_id.label("id"), sessions.c.caller, sessions.c.created_at, sessions.c.expires_at)
    found = fetch(tx, query.where(_valid(name), sessions.c.kind == SESSION), [sessions.c.created_at, _short_id], part)
    return Page([_view(row) for row in found.items], found.next)


def end_one(tx: Tx, session: str) -> None:
    """By its id."""
    of_id = sa.and_(_valid(None), sessions.c.kind == SESSION, _short_id == session)
    if not tx.execute(sessions.delete().where(of_id)).rowcount:
        raise NotFound(f"no session {session!r}", remedy="list them with `coterie console sessions`")


def end_all(tx: Tx, name: str | None) -> int:
    """Of all callers, or of those with this name, and the links that would log them in again; how many sessions."""
    of_caller = _valid(name)
    ended = tx.execute(sessions.delete().where(of_caller, sessions.c.kind == SESSION)).rowcount
    tx.execute(sessions.delete().where(of_caller))
    return ended


def _valid(name: str | None) -> sa.ColumnElement[bool]:
    valid = sessions.c.expires_at > now()
    return valid if name is None else sa.and_(valid, sessions.c.caller["name"].as_string() == name)


def _view(row: Row) -> Row:
    shown = {name: row["caller"].get(name) for name in _SHOWN}
    return {"id": row["id"], **shown, "created_at": when(row["created_at"]), "expires_at": when(row["expires_at"])}
