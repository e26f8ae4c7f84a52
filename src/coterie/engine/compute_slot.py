"""One slot for computing: threads acquire it one after the other instead of fighting over the one interpreter.

Dozens of threads that want the interpreter at once hand it to each other at every short wait, and each hand-over
between two processors costs as much as a small query. A thread that waits for a cloud releases the slot.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

LAPSE_S = 0.01  # a slot held longer than this is taken over: it is an optimisation, not a lock
SHIFT_S = 0.05  # a holder that acquires it again and again passes it on after this
_QUICK_S = 0.003
_SLOW_IN_A_ROW = 16  # fewer slow calls may be a busy machine


class ComputeSlot:
    """Held by one thread, then by the next in line. A thread whose slot was taken over may go on computing."""

    def __init__(self, lapse_s: float = LAPSE_S, shift_s: float = SHIFT_S) -> None:
        self._lapse_s = lapse_s
        self._shift_s = shift_s
        self._change = threading.Lock()
        self._line: deque[tuple[int, threading.Lock]] = deque()
        self._holder: int | None = None
        self._began = self._heard = 0.0

    @property
    def mine(self) -> bool:
        return self._holder == threading.get_ident()

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def acquire(self) -> None:
        """Wait for the slot; its holder keeps it, unless others have waited for long enough."""
        me = threading.get_ident()
        with self._change:
            moment = monotonic()
            if self._holder == me:
                if not self._line or moment - self._began < self._shift_s:
                    self._heard = moment
                    return
                self._pass_on()
            if self._holder is None or (not self._line and moment - self._heard >= self._lapse_s):
                self._hand_to(me)
                return
            gate = threading.Lock()
            gate.acquire()
            self._line.append((me, gate))
            # As long as those before us may take: an earlier look would be in vain.
            rest = self._lapse_s * len(self._line)
        while not gate.acquire(timeout=rest):
            self._look()
            rest = self._lapse_s

    def release(self) -> None:
        """From here on this thread waits for something. Without the slot this does nothing."""
        with self._change:
            if self.mine:
                self._pass_on()

    def _look(self) -> None:
        with self._change:
            if self._line and monotonic() - self._heard >= self._lapse_s:
                self._pass_on()

    def _pass_on(self) -> None:
        self._holder = None
        if self._line:
            following, gate = self._line.popleft()
            self._hand_to(following)
            gate.release()

    def _hand_to(self, thread: int) -> None:
        self._holder = thread
        self._began = self._heard = monotonic()


class SlowCalls:
    """Which methods of a driver wait for something, so that the slot is released before their calls."""

    def __init__(self) -> None:
        self._slow: Counter[str] = Counter()  # calls in a row

    def is_slow(self, method: str) -> bool:
        return self._slow[method] >= _SLOW_IN_A_ROW

    def note(self, method: str, took_s: float) -> None:
        self._slow[method] = 0 if took_s < _QUICK_S else self._slow[method] + 1


SLOT = ComputeSlot()  # one interpreter, one slot, however many conductors a process has
