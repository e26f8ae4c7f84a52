"""What a run without a death passed through, phase by phase, and the world as it was when each phase began."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.conductor.membership import Heartbeat
from tests.kill.points import SIDES, Point, commit_of
from tests.kill.scenario import Phase
from tests.kill.truth import Book
from tests.kill.world import World

# Comes at no fixed moment; the phase that waits for one is where the Director is killed.
_HEARTBEAT = (commit_of(Heartbeat._beat), "look")


@dataclass(frozen=True, slots=True)
class Start:
    """`book` None: before the first start of a Director."""

    phase: Phase
    world: World
    book: Book | None

    @property
    def since(self) -> int:
        """The newest task of the past."""
        return max((task.id for task in self.book.tasks), default=0) if self.book else 0


@dataclass(slots=True)
class Recording:
    starts: dict[str, Start] = field(default_factory=dict)
    points: dict[str, list[Point]] = field(default_factory=dict)
    foreign: dict[str, object] = field(default_factory=dict)

    def kinds(self) -> dict[str, str]:
        """Every kind of point, with the phase that reaches it first."""
        found: dict[str, str] = {}
        for phase, points in self.points.items():
            for point in points:
                found.setdefault(point.kind, phase)
        found.update([_HEARTBEAT])
        return found

    def first_of_each(self, phase: str) -> list[Point]:
        """Both sides of each kind that no earlier phase has reached."""
        return [Point(kind, side) for kind, first in self.kinds().items() if first == phase for side in SIDES]

    def all_of(self, phase: str) -> list[Point]:
        """Every single point of the phase that has a fixed place in it."""
        return [point for point in self.points[phase] if point.kind != _HEARTBEAT[0]]
