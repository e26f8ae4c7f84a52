"""How the database's clock and that of each machine went on together."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from coterie.ledger.store import Tx, insert_or_update
from coterie.ledger.tables import clocks

_KEPT_S = 30 * 86_400.0


class Reading(NamedTuple):
    """`running_s`: how long the machine runs. `at`: the database's time at that moment."""

    running_s: float
    at: float


def get(tx: Tx, boot: str) -> Reading | None:
    row = tx.execute(sa.select(clocks.c.running_s, clocks.c.at).where(clocks.c.boot == boot)).first()
    return Reading(*row) if row else None


def put(tx: Tx, boot: str, reading: Reading) -> None:
    """Readings of machines that were started anew are dropped after a while."""
    insert_or_update(tx, clocks, {"boot": boot}, reading._asdict())
    tx.execute(clocks.delete().where(clocks.c.at < reading.at - _KEPT_S))


def shift_all(tx: Tx, seconds: float) -> None:
    """The database's clock has jumped: the other machines must not find the same jump again."""
    tx.execute(clocks.update().values(at=clocks.c.at + seconds))
