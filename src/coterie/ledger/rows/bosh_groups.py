"""Which group stands for an env.bosh.group: the unique row decides which of many processes creates it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_into, now
from coterie.ledger.tables import bosh_groups


@dataclass(frozen=True, slots=True)
class Key:
    cloud: str
    director: str
    name: str


@dataclass(frozen=True, slots=True)
class BoshGroup:
    cloud: str
    director: str
    name: str
    intent: str
    cid: str | None
    state: str
    holder: str

    @property
    def key(self) -> Key:
        return Key(self.cloud, self.director, self.name)


_ROW = tuple(bosh_groups.c[name] for name in BoshGroup.__slots__)


def claim(tx: Tx, key: Key, intent: str, holder: str, lease_s: float) -> BoshGroup:
    """The row as it is now. If it has this `holder`, this process does the work that its state names.

    That is so if there was no row (then it is new, with `intent`), or if the lease of its holder had ended.
    """
    new = {"cloud": key.cloud, "director": key.director, "name": key.name, "intent": intent, "state": "intended"}
    lease = {"holder": holder, "expires": now() + lease_s}
    ended = sa.and_(bosh_groups.c.state != "live", bosh_groups.c.expires < now())
    made = insert_into(tx, bosh_groups).values(**new, **lease)
    tx.execute(made.on_conflict_do_update(index_elements=["cloud", "director", "name"], set_=lease, where=ended))
    return BoshGroup(*tx.execute(sa.select(*_ROW).where(_is(key))).one())


def find_settled(tx: Tx, key: Key) -> BoshGroup | None:
    """The row, if `claim` would leave it as it is: the group is live, or its holder's lease has not ended."""
    settled = sa.or_(bosh_groups.c.state == "live", bosh_groups.c.expires >= now())
    row = tx.execute(sa.select(*_ROW).where(_is(key), settled)).first()
    return BoshGroup(*row) if row else None


def of_caller(tx: Tx, cloud: str, director: str) -> list[BoshGroup]:
    query = sa.select(*_ROW).where(bosh_groups.c.cloud == cloud, bosh_groups.c.director == director)
    return [BoshGroup(*row) for row in tx.execute(query.order_by(bosh_groups.c.name))]


def busy(tx: Tx, cloud: str, director: str) -> frozenset[str]:
    """Intents of groups that a process with a valid lease creates now."""
    mine = sa.and_(bosh_groups.c.cloud == cloud, bosh_groups.c.director == director)
    query = sa.select(bosh_groups.c.intent).where(mine, bosh_groups.c.state == "intended")
    return frozenset(tx.execute(query.where(bosh_groups.c.expires >= now())).scalars())


def is_live(tx: Tx, key: Key, cid: str) -> bool:
    query = sa.select(bosh_groups.c.name).where(_is(key), bosh_groups.c.cid == cid, bosh_groups.c.state == "live")
    # The row lock keeps a cleanup on PostgreSQL from removing the group before our member is recorded.
    return tx.execute(query.with_for_update()).first() is not None


def renew(tx: Tx, key: Key, holder: str, lease_s: float) -> None:
    tx.execute(bosh_groups.update().where(_is(key), _held(holder)).values(expires=now() + lease_s))


def record_live(tx: Tx, key: Key, holder: str, cid: str) -> bool:
    """False when another process took over meanwhile: that one records it."""
    return tx.execute(bosh_groups.update().where(_is(key), _held(holder)).values(state="live", cid=cid)).rowcount == 1


def end_lease(tx: Tx, key: Key, holder: str) -> None:
    """The next process takes over at once."""
    tx.execute(bosh_groups.update().where(_is(key), _held(holder)).values(expires=0.0))


def begin_delete(tx: Tx, key: Key, holder: str, lease_s: float) -> bool:
    """From now on no machine may join it. The caller counts its members after this, in the same transaction."""
    idle = sa.or_(bosh_groups.c.state == "live", bosh_groups.c.expires < now())
    mine = bosh_groups.update().where(_is(key), idle)
    return tx.execute(mine.values(state="deleting", holder=holder, expires=now() + lease_s)).rowcount == 1


def restore(tx: Tx, key: Key, holder: str) -> None:
    """It is not deleted after all."""
    mine = sa.and_(_held(holder), bosh_groups.c.state == "deleting")
    tx.execute(bosh_groups.update().where(_is(key), mine).values(state="live"))


def forget(tx: Tx, key: Key, holder: str) -> bool:
    """The group is gone, or was never made; the next machine begins a new one."""
    return tx.execute(bosh_groups.delete().where(_is(key), _held(holder))).rowcount == 1


def _is(key: Key) -> sa.ColumnElement[bool]:
    row = bosh_groups.c
    return sa.and_(row.cloud == key.cloud, row.director == key.director, row.name == key.name)


def _held(holder: str) -> sa.ColumnElement[bool]:
    return sa.and_(bosh_groups.c.holder == holder, bosh_groups.c.state != "live")
