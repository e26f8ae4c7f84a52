"""The heartbeat: renews the lease by the database's clock, and strikes out those who have fallen silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coterie.engine.fence import Lease
from coterie.ledger.errors import DatabaseRefusal
from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors
from coterie.telemetry.process import BEATS

log = logging.getLogger(__name__)


class Heart:
    """Beats every fifth of a lease until it is stopped or refused; a refusal is final."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        incarnation: str,
        lease: Lease,
        ttl_s: float,
        *,
        refused: Callable[[], None],
        after: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._me = (name, incarnation)
        self._lease = lease
        self._ttl_s = ttl_s
        self._refused = refused
        self._after = after
        self._over = threading.Event()
        self._spare_until = 0.0

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.wait(self._ttl_s / 5):
            try:
                held = self._beat()
            except Exception:
                BEATS.add("failed")
                log.exception("heartbeat failed; the lease ends in at most %.0f s", self._ttl_s)
                # The database was away for everybody: the others get the time to be heard again.
                self._spare_until = self._lease.moment() + 2 * self._ttl_s
                continue
            BEATS.add("accepted" if held else "refused")
            if not held:
                self._refused()
                return

    def _beat(self) -> bool:
        since = self._lease.moment()
        with self._ledger.write_silently() as tx:
            held = conductors.beat(tx, *self._me)
            silent = conductors.silent(tx)
        if not held:
            return False
        self._lease.renew(since)
        if silent and since > self._spare_until:
            self._strike_out()
        self._after()
        return True

    def _strike_out(self) -> None:
        try:
            with self._ledger.write() as tx:
                conductors.reap(tx)
            self._ledger.asked.notify()  # their questions are open again
        except DatabaseRefusal as error:
            log.info("silent conductors cannot be struck out yet: %s", type(error.orig).__name__)
