"""Finds steps whose call hangs, and returns them to the queue: the late result is refused by its epoch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.steps import Claim

log = logging.getLogger(__name__)


class Watchdog:
    def __init__(self, ledger: Ledger, limit_s: float, replace: Callable[[Claim], None]) -> None:
        self._ledger = ledger
        self._limit_s = limit_s
        self._replace = replace
        # By claim, not by step: a step that rested shortly may run again before the thread of its last claim has left.
        self._running: dict[tuple[int, int], tuple[float, Claim]] = {}
        self._given_up: set[tuple[int, int]] = set()  # being handed back: what comes of them now is not wanted
        self._turn = threading.Lock()

    def enter(self, claim: Claim) -> None:
        """A label begins, and its calls get the whole time."""
        with self._turn:
            self._running[claim.key] = (time.monotonic(), claim)

    def leave(self, claim: Claim) -> bool:
        """True if the step was given up meanwhile, and its thread has a successor."""
        with self._turn:
            return self._running.pop(claim.key, None) is None or claim.key in self._given_up

    def look(self) -> None:
        late = time.monotonic() - self._limit_s
        with self._turn:
            hanging = [claim for since, claim in self._running.values() if since < late]
        for claim in hanging:
            if self._give_up(claim, late):
                log.warning("step %s (%s, %s) hangs; it is tried again", claim.id, claim.subject, claim.label)
                self._hand_back(claim)

    def _give_up(self, claim: Claim, late: float) -> bool:
        """False if its label has ended since we looked."""
        with self._turn:
            since, _ = self._running.get(claim.key, (late, claim))
            if since < late:
                self._given_up.add(claim.key)
            return since < late

    def _hand_back(self, claim: Claim) -> None:
        handed_back = False
        try:
            with self._ledger.write() as tx:
                steps.hand_back(tx, claim)
            handed_back = True
        finally:  # where the database does not answer, it is looked at again, unless its thread has left it meanwhile
            with self._turn:
                self._given_up.discard(claim.key)
                left = claim.key not in self._running
                if handed_back:
                    self._running.pop(claim.key, None)
            if handed_back or left:
                self._replace(claim)
