"""Public keys of conductor groups. The newest of a group is what its clouds' credentials are sealed to."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import conductor_keys
from coterie.ledger.views.page import Row, when

EVERY = "*"  # the group of a conductor that stands in for all that have no key of their own
_LOCK = 0x6B657973  # two first conductors of a group must agree on one key


@dataclass(frozen=True, slots=True)
class KeyRow:
    id: str
    conductor_group: str
    public: str


def of_group(tx: Tx, group: str) -> list[KeyRow]:
    """Its keys, newest first; those of the stand-in where it has none."""
    return _of(tx, group) or _of(tx, EVERY)


def can_open(tx: Tx, group: str, key_id: str) -> bool:
    """Whether the conductors that work for this group have the key."""
    return any(key.id == key_id for key in of_group(tx, group))


def publish_first(tx: Tx, group: str, key_id: str, public: str, by: str) -> list[KeyRow]:
    """Publish a key if the group has none yet; the keys that it has now, its own only."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    if not _of(tx, group):
        publish(tx, group, key_id, public, by)
    return _of(tx, group)


def publish(tx: Tx, group: str, key_id: str, public: str, by: str) -> None:
    """From now on credentials are sealed to this key. Publishing an old one again makes it the newest."""
    tx.execute(conductor_keys.delete().where(conductor_keys.c.id == key_id, conductor_keys.c.conductor_group == group))
    row = {"id": key_id, "conductor_group": group, "public": public, "published_by": by, "created_at": now()}
    tx.execute(conductor_keys.insert().values(**row))


def own(tx: Tx, group: str) -> list[KeyRow]:
    return _of(tx, group)


def retire(tx: Tx, group: str, key_id: str) -> bool:
    gone = conductor_keys.delete().where(conductor_keys.c.id == key_id, conductor_keys.c.conductor_group == group)
    return tx.execute(gone).rowcount == 1


def every(tx: Tx) -> list[Row]:
    """All of them, as the API shows them: by group, newest first."""
    order = (conductor_keys.c.conductor_group, conductor_keys.c.created_at.desc())
    rows = tx.execute(sa.select(conductor_keys).order_by(*order))
    return [{**row._mapping, "created_at": when(row.created_at)} for row in rows]


def _of(tx: Tx, group: str) -> list[KeyRow]:
    columns = [conductor_keys.c[name] for name in KeyRow.__slots__]
    mine = sa.select(*columns).where(conductor_keys.c.conductor_group == group)
    return [KeyRow(*row) for row in tx.execute(mine.order_by(conductor_keys.c.created_at.desc()))]
