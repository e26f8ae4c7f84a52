"""Leases of work: which process works on something now. One that is not renewed ends by itself."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_into, now
from coterie.ledger.tables import leases


def take(tx: Tx, key: str, holder: str, lease_s: float) -> bool:
    """Become the holder, unless a living one is there; also false for a holder's own second try."""
    values = {"holder": holder, "expires": now() + lease_s}
    wanted = (
        insert_into(tx, leases)
        .values(key=key, **values)
        .on_conflict_do_update(index_elements=["key"], set_=values, where=leases.c.expires < now())
        .returning(leases.c.key)
    )
    return tx.execute(wanted).first() is not None


def renew(tx: Tx, key: str, holder: str, lease_s: float) -> None:
    mine = sa.and_(leases.c.key == key, leases.c.holder == holder)
    tx.execute(leases.update().where(mine).values(expires=now() + lease_s))


def release(tx: Tx, key: str, holder: str) -> None:
    tx.execute(leases.delete().where(leases.c.key == key, leases.c.holder == holder))


def holds(tx: Tx, key: str, holder: str) -> bool:
    """Whether no other holder took it over meanwhile."""
    query = sa.select(leases.c.key).where(leases.c.key == key, leases.c.holder == holder)
    return tx.execute(query.with_for_update()).first() is not None


def list_held(tx: Tx) -> frozenset[str]:
    """Keys of all work that is under way now."""
    return frozenset(tx.execute(sa.select(leases.c.key).where(leases.c.expires >= now())).scalars())
