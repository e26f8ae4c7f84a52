"""Conductors: who is alive by the database's clock, and what becomes of the work of those who are not."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from coterie.ledger import facts, steps
from coterie.ledger.store import Tx, now
from coterie.ledger.tables import conductors, domains


def register(tx: Tx, name: str, incarnation: str, *, group: str, drivers: Sequence[str], release: str) -> list[int]:
    """Enter the fleet. An older incarnation of the same name is superseded; the tasks whose steps it held."""
    old = tx.execute(sa.select(conductors.c.incarnation).where(conductors.c.name == name)).scalar()
    tx.execute(conductors.delete().where(conductors.c.name == name))
    tx.execute(
        conductors.insert().values(
            name=name,
            incarnation=incarnation,
            conductor_group=group,
            drivers=sorted(drivers),
            release=release,
            started_at=now(),
            heartbeat=now(),
        )
    )
    return _hand_over(tx, owner(name, old)) if old else []


def owner(name: str, incarnation: str) -> str:
    return f"{name}#{incarnation}"


def beat(tx: Tx, name: str, incarnation: str) -> bool:
    """Renew the lease; False when somebody else holds this name or the fleet has given us up."""
    renewed = (
        conductors.update()
        .where(conductors.c.name == name, conductors.c.incarnation == incarnation)
        .values(heartbeat=now())
    )
    return tx.execute(renewed).rowcount == 1


def reap(tx: Tx, ttl_s: float) -> list[int]:
    """Strike out conductors that have been silent for longer than `ttl_s`; the tasks whose steps went back.

    Every running step must have a living owner: what a conductor claimed in the moment of its leaving goes back too.
    """
    dead = (
        conductors.delete()
        .where(conductors.c.heartbeat < now() - ttl_s)
        .returning(conductors.c.name, conductors.c.incarnation)
    )
    facts.release(tx, [owner(name, incarnation) for name, incarnation in tx.execute(dead)])
    return steps.hand_back_orphans(tx)


def leave(tx: Tx, name: str, incarnation: str) -> None:
    tx.execute(conductors.delete().where(conductors.c.name == name, conductors.c.incarnation == incarnation))
    me = owner(name, incarnation)
    # Only who leaves in good order gives its domains back; after a death their leases have to run out.
    tx.execute(domains.update().where(domains.c.holder == me).values(holder=None))
    _hand_over(tx, me)


def _hand_over(tx: Tx, gone: str) -> list[int]:
    facts.release(tx, [gone])
    return steps.hand_back_all(tx, gone)
