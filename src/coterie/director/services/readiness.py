"""Whether this Director can work: its ledger answers. It needs no token, so it costs little however often."""

from __future__ import annotations

import threading
import time

from coterie.ledger.errors import DatabaseError
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger

_HOLDS_S = 1.0


class Readiness:
    """One thread at a time reads the ledger; an answer holds for a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._ready = False

    def check(self, ledger: Ledger) -> bool:
        if time.monotonic() < self._until:
            return self._ready
        if not self._lock.acquire(timeout=_HOLDS_S):
            return False  # the ledger has not answered another caller yet
        try:
            self._ready = _answers(ledger)
            self._until = time.monotonic() + _HOLDS_S
            return self._ready
        finally:
            self._lock.release()


def _answers(ledger: Ledger) -> bool:
    try:
        with ledger.read() as tx:
            identity.director(tx)
    except (DatabaseError, LookupError):
        return False
    return True
