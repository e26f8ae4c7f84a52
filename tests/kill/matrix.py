"""Deaths: one run for each, and for each that only the recovery from another one leads to."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from coterie.conductor.workers import HandBackQueue
from tests.kill.bench import Bench, Failure
from tests.kill.points import SIDES, Point, commit_of, read_trace

# Comes only when this machine is too busy to claim in time, so it cannot be reached on purpose; its own tests are
# tests/conductor/test_hand_back.py and tests/faults/test_races.py.
_STARVED = {commit_of(HandBackQueue.hand_back_all)}
_TRIES = 3
_DEEPEST = 4  # deaths in one run


class Matrix:
    """`seen`: every kind of point that any run has passed through. `killed`: where a Director has died."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.recording = bench.recording
        self.killed: set[Point] = set()
        self.seen = set(bench.recording.kinds())

    def kill_all(self, phase: str, points: Iterable[Point]) -> None:
        """Kill at each, and at everything that only the recovery from such a death passes through."""
        waiting = [(point,) for point in points]
        while waiting:
            deaths = waiting.pop(0)
            fresh = {point.kind for point in self.kill(phase, *deaths)} - self.seen - _STARVED
            self.seen |= fresh
            if fresh and len(deaths) == _DEEPEST:
                raise Failure(f"{phase}: after {_DEEPEST} deaths there is still something new: {sorted(fresh)}")
            waiting += [(*deaths, Point(kind, side)) for kind in sorted(fresh) for side in SIDES]

    def kill(self, phase: str, *deaths: Point) -> list[Point]:
        """Die at each of these in turn, then live; what the last life passed through. A miss is tried again."""
        for _ in range(_TRIES):
            reached = self._try(phase, deaths)
            if reached is not None:
                return reached
        raise Failure(f"{phase}: never reached {_story(deaths)}")

    def _try(self, phase: str, deaths: tuple[Point, ...]) -> list[Point] | None:
        with self.bench.beginning(phase) as (start, world):
            for number, death in enumerate(deaths):
                order = self.bench.order(start, world, run=number, target=death)
                if self.bench.nursery.run(order) != -signal.SIGKILL:
                    return None
                self.killed.add(death)
            last = self.bench.order(start, world, run=len(deaths))
            self.bench.finish(start, world, last, f"killed {_story(deaths)}")
            return read_trace(last.trace)


def _story(deaths: tuple[Point, ...]) -> str:
    return ", then ".join(map(str, deaths))
