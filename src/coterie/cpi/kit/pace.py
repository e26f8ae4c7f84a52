"""The pace of one class of calls to a cloud: how fast they may follow each other, in all threads of a process.

Clouds throttle by class (an action, a service, reads and writes), so one refusal is about all calls of its class. After
it they are let through one by one, with a rest between them that is doubled with each further refusal, and shrinks with
each call that is answered. `Retry-After` is obeyed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from coterie.cpi.contract import Throttled
from coterie.slotted import dataclass, field

_FIRST_REST_S = 0.1
_LONGEST_REST_S = 5.0
_SHRINK = 0.8
_NO_REST_S = 0.02
_PATIENCE_S = 10.0


@dataclass(slots=True)
class PacedCall:
    """One call. `slow_down` says that the cloud refused it as one too many."""

    pace: Pace
    began: float
    is_refused: bool = False

    def slow_down(self, retry_after: float | None = None) -> None:
        self.is_refused = True
        self.pace.slow_down(self.began, retry_after)


@dataclass(slots=True)
class Pace:
    """`rest_s`: between the beginnings of two calls; 0 while nothing was refused."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rest_s: float = 0.0
    _next: float = 0.0
    _slowed: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_to_begin(self) -> PacedCall:
        """Return when a call may begin; one that would have to wait long is refused here, before anything is done, so
        that the caller's thread and lease are free meanwhile."""
        with self._lock:
            now = self.clock()
            begin = max(now, self._next)
            if begin - now > _PATIENCE_S:
                raise Throttled(
                    f"the cloud takes no more of these calls for {begin - now:.0f} s",
                    why="it refused one of them as one too many",
                    remedy="repeat later",
                    details={"retry_after": begin - now},
                )
            if self.rest_s or begin > now:
                self._next = begin + self.rest_s
        if begin > now:
            self.sleep(begin - now)
        return PacedCall(self, begin)

    def slow_down(self, began: float, retry_after: float | None) -> None:
        """Calls that were on their way together are refused together: that is one refusal."""
        with self._lock:
            now = self.clock()
            if began >= self._slowed:
                self.rest_s = min(max(self.rest_s * 2, _FIRST_REST_S), _LONGEST_REST_S)
                self._slowed = now
            self._next = max(self._next, now + max(retry_after or 0.0, self.rest_s))

    def speed_up(self) -> None:
        """After a call that the cloud answered."""
        if self.rest_s:
            with self._lock:
                shorter = self.rest_s * _SHRINK
                self.rest_s = shorter if shorter >= _NO_REST_S else 0.0
