"""Deaths: one run for each moment, and for each that only the recovery from another one leads to."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from coterie.conductor.workers import HandBackQueue
from coterie.director.http.idempotency import _renew_reservation
from tests.kill.bench import Bench, Failure
from tests.kill.points import SIDES, Point, commit_of, merge_by_moment, read_trace

# Come only when this machine is too busy to claim or to answer in time, so they cannot be reached on purpose; their own
# tests are tests/conductor/test_hand_back.py, tests/faults/test_races.py and tests/director/test_idempotency.py.
_STARVED = {commit_of(HandBackQueue.hand_back_all), f"{commit_of(_renew_reservation)}.<locals>.renew"}
_TRIES = 3
_DEEPEST = 4  # deaths in one run


class Matrix:
    """`seen`: every kind of point that any run has passed through.

    `killed`: where a Director has died, and what differs from that in nothing that outlives it.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.recording = bench.recording
        self.killed: set[Point] = set()
        self.seen = set(bench.recording.kinds())

    def kill_each(self, phase: str, points: Iterable[Point]) -> None:
        """Kill at each, and at everything that only the recovery from such a death passes through."""
        self._kill_all(phase, {point: {point} for point in points})

    def kill_at_each_moment(self, phase: str, points: Iterable[Point]) -> None:
        """The same, once for those of the points that are one moment."""
        self._kill_all(phase, merge_by_moment(points, self.recording.points[phase]))

    def _kill_all(self, phase: str, merged: dict[Point, set[Point]]) -> None:
        waiting = [((point,), equals) for point, equals in merged.items()]
        while waiting:
            deaths, equals = waiting.pop(0)
            trace = self.kill(phase, *deaths)
            self.killed |= equals
            fresh = {point.kind for point in trace} - self.seen - _STARVED
            self.seen |= fresh
            if fresh and len(deaths) == _DEEPEST:
                raise Failure(f"{phase}: after {_DEEPEST} deaths there is still something new: {sorted(fresh)}")
            new = [Point(kind, side) for kind in sorted(fresh) for side in SIDES]
            waiting += [((*deaths, point), equals) for point, equals in merge_by_moment(new, trace).items()]

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
