"""Claimed steps that wait for a worker: in order, with a limit for each cloud so that none delays the others."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator

from coterie.engine.compute_slot import SLOT, ComputeSlot
from coterie.ledger.work.steps import Claim


class Inbox:
    """At most `workers` steps have begun, and `per_cloud` of one cloud, even if calls hang; twice as many are in hand.

    One worker at a time takes a step, and wakes the next worker once it has it. So a quick worker runs many labels in a
    row while the others sleep, and a worker that waits for its cloud delays no other.
    """

    def __init__(self, workers: int, per_cloud: int, slot: ComputeSlot = SLOT) -> None:
        self._workers = workers
        self._per_cloud = per_cloud
        self._fewest = max(1, min(workers, per_cloud) // 2)  # a claim for less is not worth its transaction
        self._slot = slot
        self._waiting: deque[Claim] = deque()  # not begun
        self._begun: dict[tuple[int, int], Claim] = {}
        self._going_on: deque[Claim] = deque()  # begun, and ready for the next label
        self._running: set[tuple[int, int]] = set()  # in a label now
        self._closed = False
        self._changed = threading.Condition()
        self._idle = 0
        self._waking = False  # a worker was notified and is not awake yet
        self._taking = 0  # workers between waking and holding a step

    def capacity(self) -> tuple[int, list[str]]:
        """How many more steps may be claimed (0: not worth a claim yet), and the clouds whose steps may not be."""
        with self._changed:
            held = Counter(claim.cloud or "" for claim in self._claims_in_hand())
        left = {cloud: 2 * self._per_cloud - count for cloud, count in held.items()}
        full = sorted(cloud for cloud, rest in left.items() if rest < self._fewest)
        capacity = min(
            [2 * self._workers - held.total(), 2 * self._per_cloud, *(left[cloud] for cloud in left.keys() - {*full})]
        )
        return (capacity, full) if capacity >= self._fewest else (0, full)

    def put(self, claims: list[Claim]) -> None:
        with self._changed:
            self._waiting.extend(claims)
            self._wake_one()

    def get(self) -> Claim | None:
        """The next step that may run now, together with the compute slot; None when the conductor stops."""
        while True:
            with self._changed:
                while not self._closed and not self._may_take():
                    self._sleep()
                if self._closed:
                    self._slot.release()
                    return None
                self._taking += 1
            self._slot.acquire()
            with self._changed:
                self._taking -= 1
                if claim := self._next():
                    self._begun[claim.key] = claim
                    self._running.add(claim.key)
                    self._wake_one()
                    return claim

    def commit(self, claim: Claim) -> bool:
        """The step's label has ended and its outcome may be committed. False if the step was given up meanwhile."""
        with self._changed:
            known = claim.key in self._running
            self._running.discard(claim.key)  # the caller runs get() next: no other worker needs waking
            return known

    def resume(self, claim: Claim) -> None:
        """Its outcome is committed: run its next label before other steps begin."""
        with self._changed:
            if claim.key in self._begun and not self._closed:
                self._going_on.append(claim)
                self._wake_one()

    def finish(self, claim: Claim) -> None:
        """Forget a step that has ended or was given up. A second call changes nothing."""
        with self._changed:
            self._running.discard(claim.key)
            if self._begun.pop(claim.key, None) is not None:
                self._wake_one()

    def close(self) -> None:
        """Give out no more steps; those that wait go back with all others that this conductor holds."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._going_on.clear()
            self._changed.notify_all()

    @property
    def under_way(self) -> int:
        """How many steps have begun and have no outcome of their current label yet."""
        return len(self._running) + len(self._going_on)

    @property
    def steps(self) -> set[int]:
        """Ids of all steps in hand."""
        with self._changed:
            return {claim.id for claim in self._claims_in_hand()}

    @property
    def tasks(self) -> set[int]:
        with self._changed:
            return {claim.task for claim in self._claims_in_hand()}

    def _claims_in_hand(self) -> Iterator[Claim]:
        yield from self._waiting
        yield from self._begun.values()

    def _may_take(self) -> bool:
        return (not self._taking or self._slot.mine) and self._has_next()

    def _sleep(self) -> None:
        self._slot.release()
        self._idle += 1
        self._changed.wait()
        self._idle -= 1
        self._waking = False

    def _wake_one(self) -> None:
        if self._idle and not self._waking and not self._taking and self._has_next():
            self._waking = True
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
        """The position of the first step that may begin."""
        if len(self._begun) >= self._workers:
            return None
        busy = Counter(claim.cloud for claim in self._begun.values())
        for position, claim in enumerate(self._waiting):
            if busy[claim.cloud] < self._per_cloud:
                return position
        return None
