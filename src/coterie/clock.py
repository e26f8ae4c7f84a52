"""A clock to measure with, where a machine may have slept meanwhile."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def running_on() -> float:
    """This machine's clock that goes on while it sleeps, where the system has such a clock: only to measure."""
    return time.clock_gettime(_CLOCK)
