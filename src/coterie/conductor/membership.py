"""A conductor as a member of the fleet: its role, the heartbeat that renews its lease, its view of the rings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from coterie.engine.fence import Lease
from coterie.ledger.errors import DatabaseRefusal, is_outage, reason
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors
from coterie.ledger.work.claims import Claims
from coterie.ledger.work.share import Share
from coterie.ledger.work.stages import Ready
from coterie.ring.hash import PROBED
from coterie.telemetry.process import BEATS, RING_CHANGES

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConductorRole:
    """What a conductor works for. `group` None: every group that has no conductor of its own (embedded).

    `drivers` None: all that are installed. `pinned`: the release to behave as, during an upgrade.
    """

    group: str | None = None
    drivers: tuple[str, ...] | None = None
    weight: float = 1.0
    ring: str = PROBED
    pinned: str | None = None


class Heartbeat:
    """Renews the lease every fifth of its length until it is stopped or refused; a refusal is final.

    It also removes conductors whose heartbeat is too old.
    """

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
        self.tried_at = monotonic()

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.wait(self._ttl_s / 5):
            self.tried_at = monotonic()
            try:
                held = self._beat()
            except Exception as error:
                BEATS.add("failed")
                words = "heartbeat failed: %s; the lease ends in at most %.0f s"
                log.error(words, reason(error), self._ttl_s, exc_info=not is_outage(error))
                # The other conductors could not reach the database either: give them time to send a heartbeat.
                self._spare_until = self._lease.moment() + 2 * self._ttl_s
                continue
            BEATS.add("accepted" if held else "refused")
            if not held:
                self._refused()
                return

    def _beat(self) -> bool:
        since = self._lease.moment()
        with self._ledger.answers_within(self._ttl_s / 2), self._ledger.write_silently() as tx:
            held = conductors.beat(tx, *self._me)
            silent = conductors.silent(tx)
        if not held:
            return False
        self._lease.renew(since)
        if silent and since > self._spare_until:
            self._remove_silent()
        self._after()
        return True

    def _remove_silent(self) -> None:
        try:
            with self._ledger.write() as tx:
                conductors.reap(tx)
            self._ledger.asked.notify()  # questions that they had claimed are open again
        except DatabaseRefusal as error:
            log.info("silent conductors cannot be removed yet: %s", type(error.orig).__name__)


class RingState(NamedTuple):
    fingerprint: tuple[Any, ...]  # of the fleet that this was computed for
    share: Share
    claims: Claims


class RingView:
    """A conductor's share of the work, computed anew when a conductor has joined or left. Safe for many threads."""

    def __init__(self, name: str, owner: str, flows: Iterable[str]) -> None:
        self._name = name
        self._owner = owner
        self._flows = tuple(flows)
        self._state: RingState | None = None

    def owners(self, admitted: Iterable[Ready]) -> set[str]:
        """The conductors of these steps, as far as the last look at the fleet shows."""
        state = self._state
        return set() if state is None else {name for one in admitted if (name := state.share.owner(*one)) is not None}

    def current(self, tx: Tx) -> RingState:
        fingerprint = conductors.fingerprint(tx)
        state = self._state
        if state is None or state.fingerprint != fingerprint:
            if state is not None:
                RING_CHANGES.add()
            share = Share(conductors.fleet(tx), self._name)
            state = self._state = RingState(fingerprint, share, Claims(share, self._owner, self._flows))
        return state
