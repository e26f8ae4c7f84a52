"""The life of an intent whose caller waits: recorded, called, landed; and how a lost answer is settled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from coterie.bosh.core.call_context import Desk
from coterie.cpi.contract import CpiError, Kind, Mark, NetworkCreated, OutcomeUnknown, VmCreated
from coterie.ledger.rows import objects
from coterie.ledger.work import leases
from coterie.ledger.writes import execute

T = TypeVar("T")
_LOOK_S = 0.5


def create(desk: Desk, kind: Kind, mark: Mark, call: Callable[[], T]) -> T:
    """Make one object of a plain kind under this mark."""
    book, key = desk.book, desk.claim_of(kind, mark.intent)
    with book.ledger.write() as tx:
        leases.take(tx, key, desk.holder, book.lease_s)
        execute(tx, objects.intend(mark.intent, kind, desk.cloud, director=desk.director))
    with desk.holding(key):
        made = called(desk, kind, mark, call)
        with book.ledger.write() as tx:
            execute(tx, objects.record_created(mark.intent, cid_of(made)))
    return made


def called(desk: Desk, kind: Kind, mark: Mark, call: Callable[[], T]) -> T:
    """What the cloud made. After an error the row tells whether anything can be there."""
    try:
        return call()
    except OutcomeUnknown as unknown:
        if not settled(desk, kind, mark):
            raise _nothing(unknown) from unknown
        # It is there, so by contract the same call answers it and makes no second.
        return call()
    except CpiError:
        with desk.book.ledger.write() as tx:
            execute(tx, objects.record_gone(mark.intent))
        raise
    except BaseException:
        with desk.book.ledger.write() as tx:
            execute(tx, objects.record_unknown(mark.intent))
        raise


def settled(desk: Desk, kind: Kind, mark: Mark, since: float | None = None) -> bool:
    """Whether an object with this mark is there, found out within the cloud's settle time; if not, a tombstone.

    `since`: when the answer was lost, if that was recorded before.
    """
    with desk.book.ledger.write() as tx:
        execute(tx, objects.record_unknown(mark.intent, since))
    able = desk.driver.capabilities()
    if not able.finds:
        raise OutcomeUnknown(
            f"whether the {kind} was made is unknown",
            why=f"the answer was lost, and this cloud cannot be asked: {able.unsupported['find'].why}",
            remedy=f"look in the cloud for {mark.name()}",
            retryable=False,
        )
    give_up = time.monotonic() + able.settle_s
    while desk.driver.find(kind, mark) is None:
        if time.monotonic() >= give_up:
            with desk.book.ledger.write() as tx:
                execute(tx, objects.record_gone(mark.intent, tombstone=True))
            return False
        time.sleep(min(_LOOK_S, able.settle_s / 4))
    return True


def cid_of(made: object) -> str:
    return made.cid if isinstance(made, VmCreated | NetworkCreated) else str(made)


def _nothing(unknown: OutcomeUnknown) -> CpiError:
    return CpiError(
        unknown.what,
        why=f"{unknown.why or 'the answer was lost'}; nothing with its mark turned up within the settle time",
        remedy="repeat; should it turn up later, `coterie-cpi cleanup` removes it",
        retryable=True,
    )
