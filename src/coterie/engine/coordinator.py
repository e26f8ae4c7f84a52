"""The coordinator of single-writer domains: waiting changes are collected and applied by one holder at a time.

A lease cannot stop a process that was paused between its check and its call; so every driver re-reads what it wrote,
and a holder acknowledges only what is visible, and only while the domain is still its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.clock import running_on
from coterie.cpi.contract import Cpi, CpiError, OutcomeUnknown, Unavailable
from coterie.errors import LeaseLost
from coterie.ledger.errors import is_outage
from coterie.ledger.store import Ledger
from coterie.ledger.work import domains

log = logging.getLogger(__name__)

Numbered = tuple[int, dict[str, Any]]  # the number of a change, and its outcome
_HOLDS = 5  # how often the lease is renewed at a slow database


class LedgerCoordinator:
    """Leases in the ledger's database; safe for many threads and many processes."""

    def __init__(
        self,
        ledger: Ledger,
        holder: str,
        *,
        lease_s: float = 30.0,
        patience_s: float = 300.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ledger = ledger
        self._holder = holder
        self._lease_s = lease_s
        self._patience_s = patience_s
        self._sleep = sleep
        self._applying = threading.local()  # the epoch in which this thread applies; another thread has its own

    def submit(self, cpi: Cpi, domain: str, change: dict[str, Any]) -> dict[str, Any]:
        with self._ledger.write_silently() as tx:
            number = domains.submit(tx, domain, change, cpi.cloud)
        try:
            return self._wait(cpi, domain, number)
        finally:
            with self._ledger.write_silently() as tx:
                domains.withdraw(tx, number)

    def hold(self, domain: str) -> None:
        """Renew the lease in the database; an answer that took half the lease is asked for again."""
        epoch = getattr(self._applying, "epoch", 0)
        for _ in range(_HOLDS):
            began = time.monotonic()
            with self._ledger.write_silently() as tx:
                mine = domains.renew(tx, domain, self._holder, epoch, self._lease_s)
            if not mine:
                break
            if time.monotonic() - began < self._lease_s / 2:
                return
        raise Unavailable(
            f"the lease to write {domain} has ended",
            why="this process or its database was slower than the lease",
            remedy="it is tried again by the holder of the lease",
        )

    def _wait(self, cpi: Cpi, domain: str, number: int) -> dict[str, Any]:
        give_up, pause = time.monotonic() + self._patience_s, 0.002
        while True:
            with self._ledger.read() as tx:
                answer = domains.outcome(tx, number)
            if answer is not None:
                return answer
            if time.monotonic() >= give_up:  # looked at after the outcome: we may have applied the change for so long
                break
            if not self._serve(cpi, domain):
                self._sleep(pause)
                pause = min(pause * 1.5, 0.1)
        raise OutcomeUnknown(
            f"the change in {domain} was not acknowledged within {self._patience_s:.0f} s",
            why="another process holds the domain, or the cloud is slow",
            remedy="it is tried again; if it repeats, see which conductor holds the domain",
        )

    def _serve(self, cpi: Cpi, domain: str) -> bool:
        """Take the lease if it is free, and apply everything that waits. True if something was applied."""
        read_at = running_on()  # before the question: a change counts as older where the answer is slow
        with self._ledger.write_silently() as tx:
            epoch = domains.take(tx, domain, self._holder, self._lease_s, cpi.cloud)
            rows = domains.waiting(tx, domain, self._patience_s, cpi.cloud) if epoch is not None else []
        if epoch is None:
            return False
        self._applying.epoch = epoch
        batch = [_Waiting(number, body, read_at - age) for number, body, age in rows]
        numbered = self._apply(cpi, domain, batch) if batch else []
        with self._ledger.write_silently() as tx:
            if not domains.acknowledge(tx, domain, self._holder, epoch, numbered):
                log.warning("lost the domain %s while writing it; its next holder reconciles", domain)
                return False
        return bool(batch)

    def _apply(self, cpi: Cpi, domain: str, batch: list[_Waiting]) -> list[Numbered]:
        """The outcomes of the changes. One that breaks the driver must not fail those that came with it: then each is
        applied alone, and what the lease has no time for waits for the next turn."""
        try:
            return _apply_together(cpi, domain, batch)
        except LeaseLost:
            raise
        except Exception as error:
            if is_outage(error):
                raise
            log.exception("changes in %s broke the driver", domain)
            if len(batch) == 1:
                return [(batch[0].number, _broken(domain, error))]
        return self._apply_each(cpi, domain, batch)

    def _apply_each(self, cpi: Cpi, domain: str, batch: list[_Waiting]) -> list[Numbered]:
        enough = time.monotonic() + self._lease_s / 2
        outcomes: list[Numbered] = []
        for one in batch:
            if outcomes and time.monotonic() >= enough:
                break
            try:
                self.hold(domain)
            except Unavailable:
                break  # it does not say that nothing was done; the next holder reads what was
            outcomes += self._apply(cpi, domain, [one])
        return outcomes


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A change. `since`: when it was submitted, by `running_on`."""

    number: int
    body: dict[str, Any]
    since: float


def _apply_together(cpi: Cpi, domain: str, batch: list[_Waiting]) -> list[Numbered]:
    now = running_on()
    changes = [{**one.body, "waited_s": now - one.since} for one in batch]
    try:
        outcomes = cpi.apply(domain, changes)
    except CpiError as error:
        outcomes = [{"ok": False, "error": error.facts()} for _ in changes]
    return [(one.number, outcome) for one, outcome in zip(batch, outcomes, strict=True)]


def _broken(domain: str, error: Exception) -> dict[str, Any]:
    """Without the message of the error, which may hold anything. A repeat would break in the same way."""
    unknown = OutcomeUnknown(
        f"the driver broke while it applied a change in {domain}",
        why=f"unexpected {type(error).__name__}" + (f": {error.strerror}" if isinstance(error, OSError) else ""),
        remedy="this is a defect of Coterie or of the driver: see the log of the conductors, and report it with "
        "`coterie doctor`; what was made is found by its mark",
        retryable=False,
    )
    return {"ok": False, "error": unknown.facts()}
