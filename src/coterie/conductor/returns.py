"""Steps that were dropped half-way: they go back to the queue as soon as the database answers.

Without this a step whose commit failed would stay ours for ever, since our heartbeat goes on.
"""

from __future__ import annotations

import queue

from coterie.ledger import steps
from coterie.ledger.steps import Claim
from coterie.ledger.store import Ledger

_REST_S = 1.0  # what fails at once and always must not be tried without a rest


class Returns:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._owed: queue.SimpleQueue[Claim] = queue.SimpleQueue()

    def owe(self, claim: Claim) -> None:
        self._owed.put(claim)

    def settle(self) -> None:
        """Hand everything back; the epoch decides whether it still is ours to give. May raise, and then still owes."""
        while not self._owed.empty():
            claim = self._owed.get()
            try:
                with self._ledger.write() as tx:
                    steps.hand_back(tx, claim, _REST_S)
            except BaseException:
                self._owed.put(claim)
                raise
