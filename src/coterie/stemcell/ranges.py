"""The Range header of a download: one span of bytes, or the whole. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})$")


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int  # inclusive

    @property
    def length(self) -> int:
        return self.end - self.start + 1


class Unsatisfiable(Exception):
    """The span lies outside the file: 416."""


def read_range(header: str | None, size: int) -> Span | None:
    """The requested span; None for the whole file, also for several spans or other units."""
    found = _ONE.match(header.strip()) if header else None
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last), size - 1) if first and last else size - 1
    if start >= size or (not first and int(last) == 0):
        raise Unsatisfiable
    # An end before the start makes the header invalid, and an invalid one is ignored.
    return Span(start, end) if start <= end else None
