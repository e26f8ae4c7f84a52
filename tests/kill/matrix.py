"""Runs of the scenario: one without a death that discovers the points, then one for each death, each in a world apart.

A run begins with the world as it was when its phase began, and ends with the end of that phase.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.kill.director import LEASE_LOST
from tests.kill.foreign import plant
from tests.kill.invariants import tasks_of, violations
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import SIDES, Point, read_trace
from tests.kill.recording import Recording, Start
from tests.kill.scenario import cloud_config, phases
from tests.kill.truth import Book, last_events, read_book, read_cloud
from tests.kill.world import World, new_world

_TRIES = 3
_DEEPEST = 4  # deaths in one run


class Failure(AssertionError):
    """A run that did not end well, with everything that is needed to see why."""


class Matrix:
    def __init__(self, nursery: Nursery, folder: Path, server: str | None) -> None:
        self._nursery = nursery
        self._folder = folder
        self._server = server
        self._numbers = itertools.count()
        self.recording = Recording()
        self.killed: set[Point] = set()
        self.seen: set[str] = set()  # kinds

    @property
    def on_sqlite(self) -> bool:
        return self._server is None

    def record(self) -> None:
        """The whole scenario without a death; the world of each phase's beginning is kept."""
        world = new_world(self._folder / "recording", self._server)
        with world.operator() as account:
            plant(account)
        self.recording.foreign = read_cloud(world, "nobody").foreign
        book: Book | None = None
        for number, phase in enumerate(phases()):
            start = Start(phase, world.copy(self._folder / f"before-{phase.name}"), book)
            self.recording.starts[phase.name] = start
            order = self._order(start, world, number)
            self._finish(start, world, order, "without a death")
            self.recording.points[phase.name] = read_trace(order.trace)
            with world.ledger() as ledger:
                book = read_book(ledger)
        self.seen |= self.recording.kinds().keys()
        world.destroy()

    def kill_all(self, phase: str, points: Iterable[Point]) -> None:
        """Kill at each, and at everything that only the recovery from such a death passes through."""
        waiting = [(point,) for point in points]
        while waiting:
            deaths = waiting.pop(0)
            fresh = {point.kind for point in self.kill(phase, *deaths)} - self.seen
            self.seen |= fresh
            if fresh and len(deaths) == _DEEPEST:
                raise Failure(f"{phase}: after {_DEEPEST} deaths there is still something new: {sorted(fresh)}")
            waiting += [(*deaths, Point(kind, side)) for kind in sorted(fresh) for side in SIDES]

    def kill(self, phase: str, *deaths: Point) -> list[Point]:
        """Die at each of these in turn, then live; what the last life passed through. A miss is tried again."""
        for _ in range(_TRIES):
            reached = self._try(self.recording.starts[phase], deaths)
            if reached is not None:
                return reached
        raise Failure(f"{phase}: never reached {_story(deaths)}")

    def close(self) -> None:
        for start in self.recording.starts.values():
            start.world.destroy()

    def _try(self, start: Start, deaths: tuple[Point, ...]) -> list[Point] | None:
        world = start.world.copy(self._folder / f"run-{next(self._numbers)}")
        try:
            for number, death in enumerate(deaths):
                order = replace(self._order(start, world, number), target=death)
                if self._nursery.run(order) != -signal.SIGKILL:
                    return None
                self.killed.add(death)
            last = self._order(start, world, len(deaths))
            self._finish(start, world, last, f"killed {_story(deaths)}")
            return read_trace(last.trace)
        finally:
            world.destroy()

    def _order(self, start: Start, world: World, run: int) -> Order:
        return Order(
            "director",
            world.url,
            str(world.folder),
            cloud_config(),
            phase=start.phase.name,
            since=start.since,
            run=run,
        )

    def _finish(self, start: Start, world: World, order: Order, story: str) -> None:
        """Let a Director live to the end of the phase, and look at what it leaves behind."""
        status = self._nursery.run(order)
        if status == LEASE_LOST:  # starved by its neighbours on this machine: whoever runs it starts another
            status = self._nursery.run(order)
        with world.ledger() as ledger:
            found = self._judge(start, world, order, status, read_book(ledger))
            if found:
                told = ["", *found, "last events:", *last_events(ledger)]
                raise Failure(f"{start.phase.name}, {story}:" + "\n  ".join(told))

    def _judge(self, start: Start, world: World, order: Order, status: int, book: Book) -> list[str]:
        if status != 0:
            return [f"the Director ended with {status}", order.log.read_text()[-2000:]]
        cloud = read_cloud(world, book.director)
        found = violations(start.phase, start.book, book, cloud)
        ends = tasks_of(book, start.since)
        if ends != ["done"] * start.phase.tasks:
            found.append(f"{start.phase.tasks} tasks should be done, but they are {ends}")
        if cloud.foreign != self.recording.foreign:
            found.append("objects of others were touched")
        return found + [f"another plan would {change}" for change in order.left()]


def _story(deaths: tuple[Point, ...]) -> str:
    return ", then ".join(map(str, deaths))
