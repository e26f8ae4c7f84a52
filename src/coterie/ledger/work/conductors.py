"""Conductors: which are alive by the database's clock, and where the work of the dead ones goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from coterie.errors import Conflict
from coterie.ledger.rows import facts
from coterie.ledger.store import Tx, now, pinned_release, tell
from coterie.ledger.tables import conductors, domains
from coterie.ledger.work import steps
from coterie.ring.hash import PROBED
from coterie.ring.members import Member, fold
from coterie.ring.owner import Fleet


def register(
    tx: Tx,
    name: str,
    incarnation: str,
    *,
    group: str | None,
    drivers: Sequence[str],
    release: str,
    pinned: str | None = None,
    flows: Sequence[str] | None = None,
    opens_secrets: bool = True,
    weight: float = 1.0,
    ring: str = PROBED,
    ttl_s: float = 10.0,
) -> list[int]:
    """Enter the fleet; group None serves every group. An older incarnation of the same name is superseded.

    Returns the tasks whose steps the older one held.
    """
    old = tx.execute(sa.select(conductors.c.incarnation).where(conductors.c.name == name)).scalar()
    tx.execute(conductors.delete().where(conductors.c.name == name))
    new = conductors.insert().values(
        name=name,
        incarnation=incarnation,
        conductor_group=fold(group or ""),
        every_group=group is None,
        drivers=sorted(drivers),
        release=release,
        speaks=pinned,
        flows=None if flows is None else sorted(flows),
        opens_secrets=opens_secrets,
        weight=weight,
        ring=ring,
        ttl_s=ttl_s,
        started_at=now(),
        heartbeat=now(),
    )
    try:
        tx.execute(new)
    except sa.exc.IntegrityError as taken:  # by one that our database role may not remove, or at this very moment
        raise Conflict(f"another conductor has the name {name}", remedy="give this one another: --name NAME") from taken
    return _hand_over(tx, owner(name, old)) if old else []


def owner(name: str, incarnation: str) -> str:
    return f"{name}#{incarnation}"


def beat(tx: Tx, name: str, incarnation: str) -> bool:
    """Renew the lease; False when another process holds this name, or another conductor has removed our row."""
    return tx.execute(_BEAT, {"b_name": name, "b_incarnation": incarnation}).rowcount == 1


def silent(tx: Tx) -> bool:
    """Whether there is anything to `reap`: a cheap look before it."""
    return tx.execute(_SILENT).first() is not None or steps.orphaned(tx)


def reap(tx: Tx) -> list[int]:
    """Remove conductors that were silent for longer than their lease; the tasks whose steps went back.

    Every running step must have a living owner: what a conductor claimed in the moment of its leaving goes back too.
    One that was paused inside a transaction holds its rows until the database ends it: better to come back than to
    wait, and to fall silent meanwhile.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(sa.text("SET LOCAL lock_timeout = '200ms'"))
    dead = conductors.delete().where(_IS_SILENT).returning(conductors.c.name, conductors.c.incarnation)
    gone = [(name, owner(name, incarnation)) for name, incarnation in tx.execute(dead)]
    facts.release(tx, [holder for _, holder in gone])
    returned = steps.hand_back_orphans(tx)
    for name, _ in gone:
        tell(tx, f"conductor {name} was silent for longer than its lease, and is removed from the fleet")
    if returned:
        tell(tx, f"steps of tasks {', '.join(map(str, returned))} are taken over from conductors that are gone")
    return returned


def drain(tx: Tx, name: str, incarnation: str) -> None:
    """Leave every ring, and keep what is held until `leave`."""
    tx.execute(conductors.update().where(_this(name, incarnation)).values(draining=True))


def leave(tx: Tx, name: str, incarnation: str) -> None:
    tx.execute(conductors.delete().where(_this(name, incarnation)))
    me = owner(name, incarnation)
    # Only a conductor that leaves in good order gives its domains back; after a death their leases have to run out.
    tx.execute(domains.update().where(domains.c.holder == me).values(holder=None))
    _hand_over(tx, me)


def _hand_over(tx: Tx, gone: str) -> list[int]:
    facts.release(tx, [gone])
    return steps.hand_back_all(tx, gone)


def fingerprint(tx: Tx) -> tuple[Any, ...]:
    """Differs whenever the fleet does: a cheap look before `fleet`. A join is always the newest start."""
    return tuple(tx.execute(_FINGERPRINT).one())


def fleet(tx: Tx) -> Fleet:
    """All conductors that were not struck out yet: conductors build their rings of these."""
    return Fleet(_member(row) for row in tx.execute(_MEMBERS))


def living(tx: Tx) -> Fleet:
    """Those alive at this moment: for readers that cannot rely on a conductor to strike out the dead."""
    return Fleet((_member(row) for row in tx.execute(_MEMBERS.where(sa.not_(_IS_SILENT)))), pinned_release(tx))


def all_open_secrets(tx: Tx) -> bool:
    """Whether no conductor is alive whose release cannot make machines from sealed secrets."""
    old = sa.select(conductors.c.name).where(conductors.c.opens_secrets.is_(sa.false()), sa.not_(_IS_SILENT))
    return tx.execute(old.limit(1)).first() is None


def _member(row: Any) -> Member:
    return Member(
        row.name,
        fold(row.conductor_group),
        frozenset(row.drivers or ()),
        row.speaks or row.release,
        row.every_group,
        row.weight,
        row.ring,
        None if row.flows is None else frozenset(row.flows),
    )


def _this(name: str, incarnation: str) -> sa.ColumnElement[bool]:
    return sa.and_(conductors.c.name == name, conductors.c.incarnation == incarnation)


_IS_SILENT = conductors.c.heartbeat < now() - conductors.c.ttl_s
_SILENT = sa.select(conductors.c.name).where(_IS_SILENT).limit(1)
_MEMBERS = sa.select(conductors).where(conductors.c.draining.is_(False))
_FINGERPRINT = sa.select(
    sa.func.count(), sa.func.max(conductors.c.started_at), sa.func.sum(sa.cast(conductors.c.draining, sa.Integer))
)
_BEAT = (
    conductors.update()
    .where(conductors.c.name == sa.bindparam("b_name"), conductors.c.incarnation == sa.bindparam("b_incarnation"))
    .values(heartbeat=now())
)
