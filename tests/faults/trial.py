"""A deployment of its own for one test: deployed, bent, deployed again, and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.faults.bending import Bend, bend
from tests.kill.bench import Bench
from tests.kill.invariants import violations
from tests.kill.order import Order
from tests.kill.points import Point, read_trace
from tests.kill.scenario import Json, Phase, cloud_config
from tests.kill.truth import Book, Cloud, last_events, read_book, read_cloud
from tests.kill.world import World

DYNAMIC = [{"name": "anywhere"}]  # a network whose addresses the cloud chooses


@dataclass(slots=True)
class Trial:
    bench: Bench
    world: World
    phase: Phase
    settle_s: float = 0.05
    since: int = 0
    runs: int = 0
    points: list[Point] = field(default_factory=list)

    def bend(self, *bends: Bend) -> None:
        bend(self.world, bends)

    def order(self, **options: Any) -> Order:
        """For a Director that deploys the manifest, unless it has done so already."""
        self.runs += 1
        return Order(
            "director",
            self.world.url,
            str(self.world.folder),
            self.phase,
            cloud_config=cloud_config(settle_s=self.settle_s),
            since=self.since,
            run=self.runs,
            options=options,
        )

    def deploy(self, **options: Any) -> Book:
        """Deploy, whatever comes of it; the ledger afterwards."""
        self.since = max((task.id for task in self.book().tasks), default=0)
        return self.run(self.order(**options))

    def run(self, order: Order) -> Book:
        status = self.bench.nursery.run(order)
        assert status == 0, order.log.read_text()[-3000:]
        self.points += read_trace(order.trace)
        return self.book()

    def change(self, manifest: Json) -> None:
        self.phase = replace(self.phase, manifest=manifest)

    def book(self) -> Book:
        with self.world.ledger() as ledger:
            return read_book(ledger)

    def cloud(self) -> Cloud:
        return read_cloud(self.world, self.book().director)

    def assert_converged(self) -> None:
        """All is as the manifest says, the last task has ended well, and nothing in the cloud is unknown."""
        book = self.book()
        wrong = violations(self.phase, None, book, self.cloud())
        wrong += [] if book.tasks[-1].state == "done" else [f"task {book.tasks[-1].id} is {book.tasks[-1].state}"]
        assert not wrong, self.story(wrong)

    def events(self) -> list[str]:
        with self.world.ledger() as ledger:
            return last_events(ledger, 200)

    def story(self, wrong: list[str]) -> str:
        return "\n  ".join(["", *wrong, "events:", *self.events()])


@contextmanager
def trial(bench: Bench, manifest: Json, *, settle_s: float = 0.05) -> Iterator[Trial]:
    with bench.beginning("create") as (_, world):
        yield Trial(bench, world, Phase("trial", manifest), settle_s)


def states(book: Book) -> dict[str, str]:
    return {f"{row.instance_group}/{row.index}": row.state for row in book.nodes}
