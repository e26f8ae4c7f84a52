"""Expectations of the tests: a call must fail, may find nothing to delete, or succeeds within a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from coterie.cpi.contract import CpiError

E = TypeVar("E", bound=CpiError)
T = TypeVar("T")
# Names that no cloud gives to anything; each has once broken a driver.
ODD_CIDS = ("no-such-thing", "0", "../../etc/passwd", "' OR 1=1 --", "ünï-✓", "x" * 300, "%00", "a b\tc")


def expect_error(kind: type[E], call: Callable[[], Any]) -> E:
    """The error of `kind` that the call must end in; its words are checked by the watch."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def allow_not_found(kind: type[CpiError], call: Callable[[], Any]) -> None:
    """Deleting what is not there: done, or the typed not-found."""
    try:
        assert call() is None
    except kind:
        return


def wait_for(look: Callable[[], T | None], within_s: float) -> T | None:
    """Call `look` until it finds something; None if it found nothing within the time."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found is not None or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """All at once, each in its own thread; the first error comes out."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
