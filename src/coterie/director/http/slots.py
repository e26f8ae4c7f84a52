"""How much one caller, and all of them together, may have open at once of what is expensive."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import Semaphore

from coterie.director.http import problem


class Slots:
    """Used by the event loop only. `what`: a plural for the message."""

    def __init__(self, what: str, per_caller: int, total: int) -> None:
        self._what = what
        self._per_caller = per_caller
        self._total = total
        self._taken: Counter[str] = Counter()

    def take(self, caller: str) -> None:
        """Refused (429) when this caller, or all callers together, have too many open."""
        if self._taken[caller] >= self._per_caller:
            raise _too_many(f"{self._per_caller} {self._what} of this caller are open already")
        if self._taken.total() >= self._total:
            raise _too_many(f"{self._total} {self._what} are open already")
        self._taken[caller] += 1

    def release(self, caller: str) -> None:
        self._taken[caller] -= 1
        if not self._taken[caller]:
            del self._taken[caller]


class WaitingSlots:
    """The same for what takes a short time: what is too much waits, in the order of its coming, and holds no thread."""

    def __init__(self, per_caller: int) -> None:
        self._per_caller = per_caller
        self._of: dict[str, Semaphore] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        self._users[caller] += 1
        try:
            async with self._of.setdefault(caller, Semaphore(self._per_caller)):
                yield
        finally:
            self._users[caller] -= 1
            if not self._users[caller]:
                del self._users[caller], self._of[caller]


def _too_many(what: str) -> problem.Failure:
    refusal = problem.Failure(
        429, "too_many_requests", what, "end one of them, or try again later", {"Retry-After": "5"}
    )
    refusal.retryable = True
    return refusal
