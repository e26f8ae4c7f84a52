"""`max_parallel_calls`: at most so many calls to one cloud run at a time, in all threads of a process.

    self.limit = call_limit(cloud, settings.max_parallel_calls, runtime.director_uuid)
    with self.limit.pace("compute GET") as call:  # around one request at the lowest level, never around a wait
        response = session.send(request)
        if response.status == 429:
            call.slow_down(response.retry_after)  # and all further calls of this class with it

`with self.limit:` does the same without a class, for clouds and programs that refuse no call as one too many.

Drivers of the same cloud share one limit. A thread that holds a slot may enter again: a request inside a request, for
example a login, takes no second one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from weakref import WeakValueDictionary

from coterie.cpi.contract import Unavailable
from coterie.cpi.kit.pace import Pace, PacedCall

_WAIT_S = 600.0


class CallLimit:
    """Slots for calls. `calls` counts those that were let through, `calls_of_thread` those of the calling thread;
    `highest`: the most that ran at the same time."""

    def __init__(self, most: int, wait_s: float = _WAIT_S) -> None:
        self.most = most
        self.calls = 0
        self.highest = 0
        self._wait_s = wait_s
        self._running = 0
        self._free = threading.Condition()
        self._mine = threading.local()
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)

    @property
    def calls_of_thread(self) -> int:
        return getattr(self._mine, "calls", 0)

    @contextmanager
    def pace(self, name: str) -> Iterator[PacedCall]:
        """A slot, as soon as the pace of its class lets this call begin; `Throttled` if that is far away."""
        with self._free:
            pace = self._paces[name]
        call = pace.wait_to_begin()
        with self:
            yield call
        if not call.is_refused:
            pace.speed_up()

    def __enter__(self) -> CallLimit:
        depth: int = getattr(self._mine, "depth", 0)
        if depth == 0:
            self._take_slot()
        self._mine.depth = depth + 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mine.depth -= 1
        if self._mine.depth == 0:
            with self._free:
                self._running -= 1
                self._free.notify()

    def _take_slot(self) -> None:
        with self._free:
            if not self._free.wait_for(lambda: self._running < self.most, self._wait_s):
                raise Unavailable(
                    f"no call to the cloud could begin within {self._wait_s:.0f} s",
                    why=f"{self.most} calls, as many as properties.max_parallel_calls allows, are running",
                    remedy="repeat; if it happens again, allow more calls or look why the cloud answers slowly",
                )
            self._running += 1
            self.calls += 1
            self._mine.calls = self.calls_of_thread + 1
            self.highest = max(self.highest, self._running)


_limits: WeakValueDictionary[tuple[str, str, int], CallLimit] = WeakValueDictionary()
_opening = threading.Lock()


def call_limit(cloud: str, most: int, director_uuid: str) -> CallLimit:
    """The limit that all drivers of this Director's cloud share in this process."""
    with _opening:
        found = _limits.get((director_uuid, cloud, most))
        if found is None:
            found = _limits[director_uuid, cloud, most] = CallLimit(most)
        return found
