"""Runs of the scenario: one without a death that discovers the points, then one for each death, each in a world apart.

A run begins with the world as it was when its phase began, and ends with the end of that phase.
"""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.kill.foreign import plant
from tests.kill.invariants import tasks_of, violations
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import SIDES, Point, read_trace
from tests.kill.scenario import Phase, cloud_config, phases
from tests.kill.truth import Book, last_events, read_book, read_cloud
from tests.kill.world import World, new_world

_TRIES = 3
_DEEPEST = 4  # deaths in one run


class Failure(AssertionError):
    """A run that did not end well, with everything that is needed to see why."""


@dataclass(frozen=True, slots=True)
class Start:
    """The world as it was when a phase began. `book` None: before the first start of a Director."""

    phase: Phase
    world: World
    book: Book | None

    @property
    def since(self) -> int:
        return max((task.id for task in self.book.tasks), default=0) if self.book else 0


@dataclass(slots=True)
class Recording:
    """What a run without a death passed through, phase by phase."""

    starts: dict[str, Start] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)
    foreign: dict[str, object] = field(default_factory=dict)

    def kinds(self) -> dict[str, str]:
        """Every kind of point, with the phase that reaches it first."""
        found: dict[str, str] = {}
        for phase, points in self.points.items():
            for point in points:
                found.setdefault(point.kind, phase)
        return found


class Matrix:
    def __init__(self, nursery: Nursery, folder: Path, server: str | None) -> None:
        self._nursery = nursery
        self._folder = folder
        self._server = server
        self._numbers = itertools.count()
        self.recording = Recording()
        self.killed: set[tuple[str, str]] = set()  # kind, side
        self.seen: set[str] = set()  # kinds

    def record(self) -> Recording:
        """The whole scenario without a death; the world of each phase's beginning is kept."""
        world = new_world(self._folder / "recording", self._server)
        plant(world)
        self.recording.foreign = read_cloud(world, "nobody").foreign
        book: Book | None = None
        for phase in phases():
            start = Start(phase, world.copy(self._folder / f"before-{phase.name}"), book)
            self.recording.starts[phase.name] = start
            order = self._order(start, world, 0)
            self._finish(start, world, order, ())
            self.recording.points[phase.name] = self._reached(order)
            with world.ledger() as ledger:
                book = read_book(ledger)
        world.destroy()
        return self.recording

    def kill(self, phase: str, *deaths: Point) -> list[Point]:
        """Die at each of these in turn, then live; what the last life passed through. A miss is tried again."""
        for _ in range(_TRIES):
            reached = self._try(self.recording.starts[phase], deaths)
            if reached is not None:
                return reached
        raise Failure(f"{phase}: never reached {', then '.join(map(str, deaths))}")

    def kill_all(self, wanted: list[tuple[str, Point]]) -> None:
        """Kill at each, and at everything that only the recovery from such a death passes through."""
        waiting = [(phase, (point,)) for phase, point in wanted]
        while waiting:
            phase, deaths = waiting.pop(0)
            fresh = {point.kind for point in self.kill(phase, *deaths)} - self.seen
            self.seen |= fresh
            if fresh and len(deaths) == _DEEPEST:
                raise Failure(f"{phase}: after {_DEEPEST} deaths there is still something new: {sorted(fresh)}")
            waiting += [(phase, (*deaths, Point(kind, side))) for kind in sorted(fresh) for side in SIDES]

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
                self.killed.add((death.kind, death.side))
            last = self._order(start, world, len(deaths))
            self._finish(start, world, last, deaths)
            return self._reached(last)
        finally:
            world.destroy()

    def _order(self, start: Start, world: World, run: int) -> Order:
        phase = start.phase.name
        return Order("director", world.url, str(world.folder), cloud_config(), phase=phase, since=start.since, run=run)

    def _reached(self, order: Order) -> list[Point]:
        return read_trace(order.trace)

    def _finish(self, start: Start, world: World, order: Order, deaths: tuple[Point, ...]) -> None:
        """Let a Director live to the end of the phase, and look at what it leaves behind."""
        story = f"{start.phase.name}, killed {', then '.join(map(str, deaths)) or 'nowhere'}"
        status = self._nursery.run(order)
        with world.ledger() as ledger:
            found = self._judge(start, world, order, status, read_book(ledger))
            if found:
                events = "\n".join(last_events(ledger))
                raise Failure(f"{story}:\n  " + "\n  ".join(found) + f"\nlast events:\n{events}")

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
