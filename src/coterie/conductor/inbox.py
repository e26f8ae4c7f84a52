"""Claimed steps on their way to a worker: in order, but never so many of one cloud that the others must wait for it."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator

from coterie.engine.compute_slot import TURN, Turn
from coterie.ledger.work.steps import Claim


class Inbox:
    """At most `workers` steps have begun, and of one cloud `per_cloud`, whatever hangs; twice as many are in hand.

    One worker at a time is on its way to a step. It calls the next one once it has it, so that a worker that is quick
    runs many labels in a row and the others sleep on, while a worker that waits for its cloud holds up nobody.
    """

    def __init__(self, workers: int, per_cloud: int, turn: Turn = TURN) -> None:
        self._workers = workers
        self._per_cloud = per_cloud
        self._fewest = max(1, min(workers, per_cloud) // 2)  # a claim for less is not worth its transaction
        self._turn = turn
        self._waiting: deque[Claim] = deque()  # not begun
        self._begun: dict[tuple[int, int], Claim] = {}
        self._going_on: deque[Claim] = deque()  # begun, and ready for the next label
        self._running: set[tuple[int, int]] = set()  # in a label now
        self._closed = False
        self._changed = threading.Condition()
        self._idle = 0
        self._called = False  # a worker is woken and not yet awake
        self._coming = 0

    def room(self) -> tuple[int, list[str]]:
        """How many steps more may be taken, none of them of these clouds; 0 when it is too early to take any."""
        with self._changed:
            held = Counter(claim.cloud or "" for claim in self._held())
        left = {cloud: 2 * self._per_cloud - count for cloud, count in held.items()}
        full = sorted(cloud for cloud, rest in left.items() if rest < self._fewest)
        room = min(
            [2 * self._workers - held.total(), 2 * self._per_cloud, *(left[cloud] for cloud in left.keys() - {*full})]
        )
        return (room, full) if room >= self._fewest else (0, full)

    def put(self, claims: list[Claim]) -> None:
        with self._changed:
            self._waiting.extend(claims)
            self._call()

    def get(self) -> Claim | None:
        """The next step that may run now, and with it the turn to compute; None when the conductor stops."""
        while True:
            with self._changed:
                while not self._closed and not self._wanted():
                    self._sleep()
                if self._closed:
                    self._turn.give_up()
                    return None
                self._coming += 1
            self._turn.take()
            with self._changed:
                self._coming -= 1
                if claim := self._next():
                    self._begun[claim.key] = claim
                    self._running.add(claim.key)
                    self._call()
                    return claim

    def commit(self, claim: Claim) -> bool:
        """Its label is over, and what it came to is on its way to the ledger. False if it was written off meanwhile."""
        with self._changed:
            known = claim.key in self._running
            self._running.discard(claim.key)  # whoever says so comes back for more: nobody need be called
            return known

    def again(self, claim: Claim) -> None:
        """It is committed, and goes on before others begin."""
        with self._changed:
            if claim.key in self._begun and not self._closed:
                self._going_on.append(claim)
                self._call()

    def done(self, claim: Claim) -> None:
        """It runs no more, or is written off. A second time changes nothing."""
        with self._changed:
            self._running.discard(claim.key)
            if self._begun.pop(claim.key, None) is not None:
                self._call()

    def close(self) -> None:
        """No step is given out any more; those that wait go back with everything else that this conductor holds."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._going_on.clear()
            self._changed.notify_all()

    @property
    def under_way(self) -> int:
        """Steps that have begun and whose next outcome has not come yet."""
        return len(self._running) + len(self._going_on)

    @property
    def steps(self) -> set[int]:
        """Everything that is in hand."""
        with self._changed:
            return {claim.id for claim in self._held()}

    @property
    def tasks(self) -> set[int]:
        with self._changed:
            return {claim.task for claim in self._held()}

    def _held(self) -> Iterator[Claim]:
        yield from self._waiting
        yield from self._begun.values()

    def _wanted(self) -> bool:
        return (not self._coming or self._turn.mine) and self._has_next()

    def _sleep(self) -> None:
        self._turn.give_up()
        self._idle += 1
        self._changed.wait()
        self._idle -= 1
        self._called = False

    def _call(self) -> None:
        if self._idle and not self._called and not self._coming and self._has_next():
            self._called = True
            self._changed.notify()

    def _has_next(self) -> bool:
        return bool(self._going_on) or self._first() is not None

    def _next(self) -> Claim | None:
        if self._going_on:
            return self._going_on.popleft()
        position = self._first()
        if position is None:
            return None
        claim = self._waiting[position]
        del self._waiting[position]
        return claim

    def _first(self) -> int | None:
        """Where the first step stands that may begin."""
        if len(self._begun) >= self._workers:
            return None
        busy = Counter(claim.cloud for claim in self._begun.values())
        for position, claim in enumerate(self._waiting):
            if busy[claim.cloud] < self._per_cloud:
                return position
        return None
