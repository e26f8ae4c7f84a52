"""Counts nodes that changed their conductor between two reads of the metrics. Writes nothing."""

from __future__ import annotations

import threading

from coterie.ledger.store import Tx
from coterie.ledger.views.counts import Counts
from coterie.ledger.views.ring import placed
from coterie.ledger.work import conductors
from coterie.ring.owner import Fleet
from coterie.ring.what_if import moves


class RingMoves:
    """Compares when metrics are read: a node that moved and came back in between is not counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: Fleet | None = None
        self._moved = {"moved": 0.0, "orphaned": 0.0, "served": 0.0}

    def read(self, tx: Tx) -> Counts:
        """moved: to another conductor; orphaned: to none; served: from none to one."""
        fleet = conductors.living(tx)
        with self._lock:
            if self._before is not None and self._before.members != fleet.members:
                for (was, is_now), count in moves(self._before, fleet, placed(tx)).items():
                    what = "orphaned" if is_now is None else "served" if was is None else "moved"
                    self._moved[what] += count
            self._before = fleet
            return {(what,): count for what, count in self._moved.items()}
