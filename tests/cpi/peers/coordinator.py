"""A coordinator within one process: one writer per domain, and those who wait meanwhile go together."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from coterie.cpi.contract import Cpi, Json


@dataclass
class _Waiting:
    change: Json
    outcome: Json | None = None


class LocalCoordinator:
    def __init__(self) -> None:
        self._queues: defaultdict[str, list[_Waiting]] = defaultdict(list)
        self._writers: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        mine = _Waiting(change)
        with self._guard:
            self._queues[domain].append(mine)
            writer = self._writers[domain]
        with writer:
            if mine.outcome is None:
                self._apply(cpi, domain)
        assert mine.outcome is not None
        return mine.outcome

    def _apply(self, cpi: Cpi, domain: str) -> None:
        with self._guard:
            batch, self._queues[domain] = self._queues[domain], []
        outcomes = cpi.apply(domain, [one.change for one in batch])
        for one, outcome in zip(batch, outcomes, strict=True):
            one.outcome = outcome
