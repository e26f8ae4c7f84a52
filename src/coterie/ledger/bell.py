"""A bell: threads of one process rest until somebody rings it. It carries no facts; whoever wakes looks for itself."""

from __future__ import annotations

import threading


class Bell:
    """`version` rises with every ring, so that a ring between a look and the rest that follows is not missed."""

    def __init__(self) -> None:
        self.version = 0
        self._rung = threading.Condition()

    def ring(self) -> None:
        with self._rung:
            self.version += 1
            self._rung.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Rest until it has rung since `seen`, or for so long at the most."""
        with self._rung:
            self._rung.wait_for(lambda: self.version != seen, timeout_s)
