"""Steps that were dropped half-way: they go back to the queue as soon as the database answers.

Without this a step whose commit failed, or whose claim was committed while the answer got lost, would stay ours for
ever, since our heartbeat goes on.
"""

from __future__ import annotations

import queue
from collections.abc import Container

from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.steps import Claim

_REST_S = 1.0  # what fails at once and always must not be tried without a rest


class Returns:
    def __init__(self, ledger: Ledger, owner: str) -> None:
        self._ledger = ledger
        self._owner = owner
        self._in_doubt = False
        self._owed: queue.SimpleQueue[Claim] = queue.SimpleQueue()

    def owe(self, claim: Claim) -> None:
        self._owed.put(claim)

    def doubt(self) -> None:
        """A claim failed: nobody knows whether the database took it for done."""
        self._in_doubt = True

    def settle(self, in_hand: Container[int]) -> None:
        """Hand everything back; the epoch decides whether it still is ours to give. May raise, and then still owes."""
        while not self._owed.empty():
            claim = self._owed.get()
            try:
                with self._ledger.write() as tx:
                    steps.hand_back(tx, claim, _REST_S)
            except BaseException:
                self._owed.put(claim)
                raise
        if self._in_doubt:
            with self._ledger.write() as tx:
                for step in steps.running(tx, self._owner):
                    if step not in in_hand:
                        steps.hand_back_one(tx, self._owner, step)
            self._in_doubt = False
