"""Points at which a Director may die: noted as they are reached, in order, and the one where it shall die."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SIDES = ("before", "after")
_WRITES = ("commit ", "cloud ", "client ")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The `nth` time that something of this kind is about to happen, or has just happened."""

    kind: str
    side: str
    nth: int = 1

    def wire(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.side} {self.kind}" + (f" (time {self.nth})" if self.nth > 1 else "")


class Tracer:
    """Writes every point to a file that outlives the process, and acts at `target`; by default it dies."""

    def __init__(self, trace: Path, target: Point | None) -> None:
        self._file = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._target = target
        self.act: Callable[[], None] = die
        self._counts: Counter[tuple[str, str]] = Counter()
        self._turn = threading.Lock()

    def reach(self, kind: str, side: str) -> None:
        with self._turn:
            self._counts[kind, side] += 1
            os.write(self._file, f"{side}\t{kind}\n".encode())
            hit = self._target == Point(kind, side, self._counts[kind, side])
        if hit:
            self.act()


def first_of_each_kind(trace: Iterable[Point]) -> list[Point]:
    """The first of each kind, on each side."""
    return [point for point in trace if point.nth == 1]


def merge_by_moment(points: Iterable[Point], trace: Iterable[Point]) -> dict[Point, set[Point]]:
    """One point for each moment of the trace, with those of `points` that it stands for.

    A moment ends when something is written: to the ledger, to the cloud or by the client. A killed process leaves only
    what is written, so a death at one point of a moment is a death at each. The last one stands for all, for there a
    transaction may be open.
    """
    left, merged, last = set(points), dict[Point, set[Point]](), None
    for point in reversed(list(trace)):
        if point in left:
            last = last or point
            merged.setdefault(last, set()).add(point)
            left.remove(point)
        if point.side == "after" and point.kind.startswith(_WRITES):
            last = None
    return {**dict(reversed(merged.items())), **{point: {point} for point in sorted(left)}}


def commit_of(function: Callable[..., Any]) -> str:
    """The kind of the commits that this function makes; taken from the code, so that a renamed one is still met."""
    return f"commit {function.__module__.removeprefix('coterie.')}.{function.__qualname__}"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stop() -> None:
    """Until a SIGCONT comes."""
    os.kill(os.getpid(), signal.SIGSTOP)


def read_trace(trace: Path) -> list[Point]:
    """What was reached, in order."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for line in trace.read_text().splitlines() if trace.exists() else ():
        side, kind = line.split("\t")
        counts[kind, side] += 1
        found.append(Point(kind, side, counts[kind, side]))
    return found
