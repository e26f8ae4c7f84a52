"""Who this Director is: one row, made at the first start and never changed."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from coterie.ids import Ids
from coterie.ledger.store import Ledger, Tx, now
from coterie.ledger.tables import directors

_LOCK = 0x64697265  # two first starts at once must agree on one Director


@dataclass(frozen=True, slots=True)
class Identity:
    uuid: str
    name: str


def director(tx: Tx) -> Identity:
    row = tx.execute(sa.select(directors.c.uuid, directors.c.name).order_by(directors.c.created_at)).first()
    if row is None:
        raise LookupError("the ledger has no Director yet; call ensure_director first")
    return Identity(row.uuid, row.name)


def ensure_director(ledger: Ledger, name: str, ids: Ids, uuid: str | None = None) -> Identity:
    """The Director of this ledger; named `name` if it is the first start. `uuid`: of one whose ledger was lost."""
    with ledger.write() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        if tx.execute(sa.select(sa.func.count()).select_from(directors)).scalar_one() == 0:
            tx.execute(directors.insert().values(uuid=uuid or ids.uuid(), name=name, created_at=now()))
        return director(tx)
