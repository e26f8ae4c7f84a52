"""What injected faults ask of the work itself, and the transaction that the work is done in."""

from __future__ import annotations

import sqlite3

from coterie.ids import Ids
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Twist:
    """How a call is bent: its objects show up late, its VM is broken, its VM builds slowly."""

    late_s: float = 0.0
    broken_vm: bool = False
    build_s: float = 0.0


STRAIGHT = Twist()


@dataclass(slots=True)
class Tx:
    """One call: its transaction, account and time, and the effects of faults on it."""

    db: sqlite3.Connection
    account: str
    now: float
    ids: Ids
    twist: Twist = STRAIGHT
    answer_after_s: float = 0.0  # set by the work: how long after the commit the cloud takes to answer
