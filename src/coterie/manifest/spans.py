"""Sets of whole numbers as intervals: no function visits the numbers one by one, except to list them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The numbers from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def overlap(self, other: Span) -> Span | None:
        first, last = max(self.first, other.first), min(self.last, other.last)
        return Span(first, last) if first <= last else None


class Ranges:
    """A set of numbers, kept as sorted intervals that neither touch nor overlap. Membership costs O(log n)."""

    __slots__ = ("_firsts", "spans")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self.spans = tuple(_merge_adjacent(sorted(spans)))
        self._firsts = [span.first for span in self.spans]

    def __contains__(self, number: int) -> bool:
        return self.covers(Span(number, number))

    def __iter__(self) -> Iterator[int]:
        for span in self.spans:
            yield from range(span.first, span.last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    @property
    def count(self) -> int:
        return sum(span.count for span in self.spans)

    def covers(self, span: Span) -> bool:
        """Whether all of `span` is in the set."""
        index = bisect_right(self._firsts, span.first) - 1
        return index >= 0 and span.last <= self.spans[index].last

    def overlap(self, span: Span) -> Span | None:
        """The first stretch of `span` that is in the set."""
        index = max(bisect_right(self._firsts, span.first) - 1, 0)
        for held in self.spans[index : index + 2]:
            found = held.overlap(span)
            if found:
                return found
        return None

    def minus(self, other: Ranges) -> Ranges:
        """What is in this set and not in the other."""
        return Ranges(piece for span in self.spans for piece in other.gaps(span))

    def gaps(self, span: Span) -> Iterator[Span]:
        """The stretches of `span` that are not in this set."""
        start = span.first
        for index in range(max(bisect_right(self._firsts, start) - 1, 0), len(self.spans)):
            held = self.spans[index]
            if held.first > span.last:
                break
            if held.first > start:
                yield Span(start, held.first - 1)
            start = max(start, held.last + 1)
        if start <= span.last:
            yield Span(start, span.last)


def _merge_adjacent(spans: list[Span]) -> Iterator[Span]:
    if not spans:
        return
    held = spans[0]
    for span in spans[1:]:
        if span.first > held.last + 1:
            yield held
            held = span
        else:
            held = Span(held.first, max(held.last, span.last))
    yield held
