"""Counters, gauges and histograms of one process, and their Prometheus text. Standard library only.

A name and its labels are fixed when a meter is made; values of labels come from our own tables, never from users.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

Labels = tuple[str, ...]
Sample = tuple[str, Mapping[str, str], float]  # what is added to the name, labels, value
BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Meter(ABC):
    """One family of samples."""

    kind = "gauge"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self._labels = name, help, tuple(labels)
        self._turn = threading.Lock()

    @abstractmethod
    def samples(self) -> Iterable[Sample]: ...

    def _with_names(self, values: Labels) -> dict[str, str]:
        return dict(zip(self._labels, values, strict=True))


class Counter(Meter):
    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *values: str, count: float = 1.0) -> None:
        with self._turn:
            self._counts[values] = self._counts.get(values, 0.0) + count

    def samples(self) -> Iterator[Sample]:
        with self._turn:
            counts = sorted(self._counts.items())
        for values, count in counts:
            yield "", self._with_names(values), count


class Histogram(Meter):
    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Sequence[str] = (), bounds: Sequence[float] = BUCKETS_S) -> None:
        super().__init__(name, help, labels)
        self._bounds = tuple(bounds)
        self._seen: dict[Labels, tuple[list[int], float]] = {}

    def observe(self, value: float, *values: str) -> None:
        with self._turn:
            buckets, total = self._seen.get(values) or ([0] * (len(self._bounds) + 1), 0.0)
            buckets[bisect_left(self._bounds, value)] += 1
            self._seen[values] = (buckets, total + value)

    def samples(self) -> Iterator[Sample]:
        with self._turn:
            seen = sorted((values, (list(buckets), total)) for values, (buckets, total) in self._seen.items())
        for values, (buckets, total) in seen:
            labels, count = self._with_names(values), 0
            for bound, more in zip((*self._bounds, inf), buckets, strict=True):
                count += more
                yield "_bucket", {**labels, "le": "+Inf" if bound == inf else f"{bound:g}"}, count
            yield "_sum", labels, total
            yield "_count", labels, count


class Gauge(Meter):
    """Read when metrics are rendered."""

    def __init__(self, name: str, help: str, read: Callable[[], float]) -> None:
        super().__init__(name, help)
        self._read = read

    def samples(self) -> Iterator[Sample]:
        yield "", {}, self._read()


def text(meters: Iterable[Meter]) -> str:
    return "".join(family(meter.name, meter.help, meter.kind, meter.samples()) for meter in meters)


def family(name: str, help: str, kind: str, samples: Iterable[Sample]) -> str:
    """One family in Prometheus' words, with a newline at its end."""
    lines = [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{more}{_labels(labels)} {_number(value)}" for more, labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{shown}}}" if shown else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"
