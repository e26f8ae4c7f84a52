"""API tokens: whom each is for, what it may do and until when. Only the hash of its secret is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import tokens
from coterie.ledger.views.page import Page, Row, Slice, fetch, when


@dataclass(frozen=True, slots=True)
class TokenRow:
    """`teams` None: not limited to teams."""

    id: str
    name: str
    hash: str
    role: str
    teams: list[str] | None


def add(tx: Tx, row: TokenRow, by: str, ttl_s: float) -> None:
    values = {name: getattr(row, name) for name in TokenRow.__slots__}
    tx.execute(tokens.insert().values(**values, created_by=by, created_at=now(), expires_at=now() + ttl_s))


def valid(tx: Tx, token_id: str) -> TokenRow | None:
    """The token, unless it has expired or was revoked."""
    columns = [tokens.c[name] for name in TokenRow.__slots__]
    row = tx.execute(sa.select(*columns).where(tokens.c.id == token_id, _VALID)).first()
    return TokenRow(*row) if row else None


def valid_ids(tx: Tx) -> frozenset[str]:
    return frozenset(tx.execute(sa.select(tokens.c.id).where(_VALID)).scalars())


def admin_exists(tx: Tx) -> bool:
    return tx.execute(sa.select(tokens.c.id).where(tokens.c.role == "admin", _VALID).limit(1)).first() is not None


def revoke(tx: Tx, token_id: str) -> None:
    """At once and for good; a token that was revoked before stays as it is."""
    one(tx, token_id)
    tx.execute(tokens.update().where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None)).values(revoked_at=now()))


def page(tx: Tx, part: Slice, name: str | None = None) -> Page:
    query = _shown_columns() if name is None else _shown_columns().where(tokens.c.name == name)
    found = fetch(tx, query, [tokens.c.id], part)
    return Page([_view(row) for row in found.items], found.next)


def one(tx: Tx, token_id: str) -> Row:
    row = tx.execute(_shown_columns().where(tokens.c.id == token_id)).mappings().first()
    if row is None:
        raise NotFound(f"no token {token_id!r}", remedy="list them with `coterie tokens`")
    return _view(dict(row))


def _shown_columns() -> sa.Select[Any]:
    columns = [column for column in tokens.c if column.name != "hash"]
    state = sa.case(
        (tokens.c.revoked_at.is_not(None), "revoked"), (tokens.c.expires_at <= now(), "expired"), else_="valid"
    )
    return sa.select(*columns, state.label("state"))


def _view(row: Row) -> Row:
    return {**row, **{name: when(row[name]) for name in ("created_at", "expires_at", "revoked_at")}}


_VALID = sa.and_(tokens.c.revoked_at.is_(None), tokens.c.expires_at > now())
