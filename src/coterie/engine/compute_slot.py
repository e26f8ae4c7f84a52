"""Threads that only compute take turns, instead of fighting over the one interpreter that they share.

Dozens of threads that want the interpreter at once hand it to each other at every short wait, and each hand-over
between two processors costs as much as a small query. Who waits for a cloud has no use for a turn and gives it up.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

LAPSE_S = 0.01  # a turn of which nothing was heard for so long passes on: it is to save time, not to be waited for
SHIFT_S = 0.05  # who goes on and on lets others in after this
_QUICK_S = 0.003
_SLOW_ONES = 16  # in a row; a few slow calls may be a busy machine


class Turn:
    """Held by one thread, then by the next in line. Nothing is wrong when one whose turn has lapsed computes too."""

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
    def taken(self) -> Iterator[None]:
        self.take()
        try:
            yield
        finally:
            self.give_up()

    def take(self) -> None:
        """Wait for our turn; who has it goes on with it, unless others have waited for long enough."""
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
            # As long as those before us may take: who looks sooner looks in vain.
            rest = self._lapse_s * len(self._line)
        while not gate.acquire(timeout=rest):
            self._look()
            rest = self._lapse_s

    def give_up(self) -> None:
        """From here on this thread waits for something; without a turn this does nothing."""
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


class Pace:
    """Which methods of a driver wait for something, so that the turn is given up before their calls."""

    def __init__(self) -> None:
        self._slow: Counter[str] = Counter()  # calls in a row

    def waits(self, method: str) -> bool:
        return self._slow[method] >= _SLOW_ONES

    def note(self, method: str, took_s: float) -> None:
        self._slow[method] = 0 if took_s < _QUICK_S else self._slow[method] + 1


TURN = Turn()  # one interpreter, one turn, however many conductors a process has
