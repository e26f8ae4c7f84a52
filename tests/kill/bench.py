"""Where a phase of the scenario is run again and again: each time in a copy of the world that it begins with.

What is done to the Director or to the cloud meanwhile is up to the tests that use the bench.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.sandbox import vms
from tests.kill.director import LEASE_LOST
from tests.kill.foreign import plant
from tests.kill.invariants import tasks_of, violations
from tests.kill.nursery import Nursery
from tests.kill.order import Order
from tests.kill.points import read_trace
from tests.kill.recording import Recording, Start
from tests.kill.scenario import LOST, phases
from tests.kill.truth import Book, last_events, read_book, read_cloud
from tests.kill.world import World, new_world


class Failure(AssertionError):
    """A run that did not end well, with everything that is needed to see why."""


class Bench:
    def __init__(self, nursery: Nursery, folder: Path, server: str | None) -> None:
        self.nursery = nursery
        self.recording = Recording()
        self.server = server
        self._folder = folder
        self._numbers = itertools.count()

    def record(self) -> Recording:
        """The whole scenario, undisturbed; the world of each phase's beginning is kept."""
        world = new_world(self._folder / "recording", self.server)
        with world.operator() as account:
            plant(account)
        self.recording.foreign = read_cloud(world, "another").foreign
        book: Book | None = None
        for number, phase in enumerate(phases()):
            if phase.ask == "revive":
                _lose_a_vm(world)
            start = Start(phase, world.copy(self._folder / f"before-{phase.name}"), book)
            self.recording.starts[phase.name] = start
            order = self.order(start, world, run=number)
            self.finish(start, world, order, "undisturbed")
            self.recording.points[phase.name] = read_trace(order.trace)
            with world.ledger() as ledger:
                book = read_book(ledger)
        world.destroy()
        return self.recording

    @contextmanager
    def beginning(self, phase: str) -> Iterator[tuple[Start, World]]:
        """A world of one's own, as it was when the phase began."""
        start = self.recording.starts[phase]
        world = start.world.copy(self._folder / f"run-{next(self._numbers)}")
        try:
            yield start, world
        finally:
            world.destroy()

    def order(self, start: Start, world: World, **more: Any) -> Order:
        return Order("director", world.url, str(world.folder), start.phase, since=start.since, **more)

    def finish(self, start: Start, world: World, order: Order, story: str) -> None:
        """Let a Director live to the end of the phase, and look at what it leaves behind."""
        status = self.nursery.run(order)
        if status == LEASE_LOST:  # starved by other processes of this machine: a service manager starts another
            status = self.nursery.run(order)
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
        ends = [state for state in tasks_of(book, start.since) if state != "cancelled"]
        if ends != ["done"] * start.phase.tasks:
            found.append(f"{start.phase.tasks} tasks should be done, but they are {ends}")
        if cloud.foreign != self.recording.foreign:
            found.append("objects of others were touched")
        return found + [f"another plan would {change}" for change in order.left()]


def _lose_a_vm(world: World) -> None:
    with world.ledger() as ledger:
        (cid,) = [row.vm_cid for row in read_book(ledger).nodes if (row.instance_group, row.index) == LOST]
    with world.operator() as account:
        vms.delete_vm(account, cid)
