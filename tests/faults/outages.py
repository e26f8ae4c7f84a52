"""Outages of the database at every use that a running label makes of the ledger, its driver's uses included.

Nothing is listed here by hand: a use is named by its flow, its label and its number, as they come.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa

from coterie.conductor import workers
from coterie.engine.runner import Runner
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work.steps import Claim, Outcome

_here = threading.local()  # the label that this thread runs, and how often it has used the ledger


@dataclass(frozen=True, slots=True)
class Strike:
    """One outage: `act` gets the open transaction. `after`: only for writes, once they are committed."""

    name: str
    act: Callable[[Tx], None]
    after: bool = False


def _fail(error: Exception) -> Callable[[Tx], None]:
    def act(tx: Tx) -> None:
        raise error

    return act


_CLOSED = psycopg.OperationalError("server closed the connection unexpectedly")
_ENDED = psycopg.errors.AdminShutdown("terminating connection due to administrator command")
_IDLE = psycopg.errors.IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout")
_LOST = sa.exc.OperationalError("SELECT", {}, _CLOSED)

INJECTED = (
    Strike("OperationalError", _fail(_LOST)),
    Strike("InterfaceError", _fail(sa.exc.InterfaceError("SELECT", {}, psycopg.InterfaceError("it is closed")))),
    Strike("AdminShutdown", _fail(sa.exc.OperationalError("SELECT", {}, _ENDED, connection_invalidated=True))),
    Strike("idle time-out", _fail(sa.exc.InternalError("SELECT", {}, _IDLE, connection_invalidated=True))),
    Strike("no free connection", _fail(sa.exc.TimeoutError("QueuePool limit reached"))),
    Strike("answer lost after the commit", _fail(_LOST), after=True),
)


def install(strikes: Sequence[Strike], note: Callable[[str], None], patch: Callable[..., None] = setattr) -> None:
    """From now on each use meets each strike once, one at a time. `note` hears of every strike."""
    met: Counter[str] = Counter()
    patch(workers, "_REST_S", 0.0)
    patch(Runner, "run", _named(Runner.run))
    patch(Ledger, "read", _struck(Ledger.read, [one for one in strikes if not one.after], met, note))
    for name in ("write", "write_outcomes", "write_silently"):
        patch(Ledger, name, _struck(getattr(Ledger, name), strikes, met, note))


def _named(run: Callable[[Runner, Claim], Outcome]) -> Callable[[Runner, Claim], Outcome]:
    def named(self: Runner, claim: Claim) -> Outcome:
        _here.label, _here.uses = f"{claim.flow}.{claim.label}", 0
        try:
            return run(self, claim)
        finally:
            _here.label = None

    return named


def _struck(
    original: Callable[..., Any], strikes: Sequence[Strike], met: Counter[str], note: Callable[[str], None]
) -> Callable[..., Any]:
    @contextmanager
    def use(self: Ledger) -> Iterator[Tx]:
        strike = _next(strikes, met, note)
        with original(self) as tx:
            if strike is not None and not strike.after:
                strike.act(tx)
            yield tx
        if strike is not None and strike.after:
            strike.act(tx)

    return use


def _next(strikes: Sequence[Strike], met: Counter[str], note: Callable[[str], None]) -> Strike | None:
    label = getattr(_here, "label", None)
    if label is None:
        return None
    _here.uses += 1
    key = f"{label}#{_here.uses}"
    if met[key] >= len(strikes):
        return None
    strike = strikes[met[key]]
    met[key] += 1
    note(f"{key} {strike.name}")
    return strike
