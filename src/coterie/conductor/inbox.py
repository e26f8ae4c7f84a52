"""Claimed steps on their way to a worker: in order, but never so many of one cloud that the others must wait for it."""

from __future__ import annotations

import threading
from collections import Counter, deque

from coterie.ledger.steps import Claim


class Inbox:
    """A cloud that hangs keeps at most `per_cloud` workers; twice as many of its steps are taken from the queue."""

    def __init__(self, workers: int, per_cloud: int) -> None:
        self._most = 2 * workers
        self._per_cloud = per_cloud
        self._fewest = max(1, min(workers, per_cloud) // 2)  # a claim for less is not worth its transaction
        self._waiting: deque[Claim] = deque()
        self._running: dict[tuple[int, int], Claim] = {}
        self._closed = False
        self._changed = threading.Condition()

    def room(self) -> tuple[int, list[str]]:
        """How many steps more may be taken, none of them of these clouds; 0 when it is too early to take any."""
        with self._changed:
            held = Counter(claim.cloud or "" for claim in (*self._waiting, *self._running.values()))
        left = {cloud: 2 * self._per_cloud - count for cloud, count in held.items()}
        full = sorted(cloud for cloud, rest in left.items() if rest < self._fewest)
        room = min([self._most - held.total(), 2 * self._per_cloud, *(left[cloud] for cloud in left.keys() - {*full})])
        return (room, full) if room >= self._fewest else (0, full)

    def put(self, claims: list[Claim]) -> None:
        with self._changed:
            self._waiting.extend(claims)
            self._changed.notify(len(claims))

    def get(self) -> Claim | None:
        """The next step that may run now; None when the conductor stops."""
        with self._changed:
            while not self._closed:
                claim = self._next()
                if claim is not None:
                    self._running[claim.key] = claim
                    return claim
                self._changed.wait()
        return None

    def done(self, claim: Claim) -> None:
        """It runs no more, or is written off. A second time changes nothing."""
        with self._changed:
            if self._running.pop(claim.key, None) is not None:
                self._changed.notify()

    def close(self) -> None:
        """No step is given out any more; those that wait go back with everything else that this conductor holds."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def steps(self) -> set[int]:
        """Those that wait and those that run."""
        with self._changed:
            return {claim.id for claim in (*self._waiting, *self._running.values())}

    @property
    def tasks(self) -> set[int]:
        with self._changed:
            return {claim.task for claim in (*self._waiting, *self._running.values())}

    def _next(self) -> Claim | None:
        busy = Counter(claim.cloud for claim in self._running.values())
        for position, claim in enumerate(self._waiting):
            if busy[claim.cloud] < self._per_cloud:
                del self._waiting[position]
                return claim
        return None
