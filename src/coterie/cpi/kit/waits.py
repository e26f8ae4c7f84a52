"""Waiting for the cloud: look again and again, ever more rarely, until something is there or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from coterie.cpi.contract import Json, OutcomeUnknown
from coterie.slotted import dataclass

T = TypeVar("T")


class Overdue(OutcomeUnknown):
    """What was waited for did not happen in time. Unlike a lost answer it leaves no doubt about what was made."""


@dataclass(frozen=True, slots=True)
class Waits:
    """`timeout_s`: how long to wait where a call gives no limit of its own. `poll_s`: the first rest between looks;
    each next one is longer by `growth`, up to `slowest_poll_s`."""

    timeout_s: float
    poll_s: float
    slowest_poll_s: float = 3.0
    growth: float = 1.3
    remedy: str = "look at it in the cloud; raise properties.state_timeout if it only needs longer"

    def until(
        self,
        what: str,
        look: Callable[[], T | None],
        limit_s: float | None = None,
        first_s: float = 0.0,
        why: str = "",
        verb: str = "happen",
        details: Json | None = None,
    ) -> T:
        """What `look` finds in the end. The first look is after `first_s`, the last one at the limit: `Overdue` then,
        which says that `what` did not `verb` in time, `why`, and `details`. An error of `look` ends the wait."""
        limit = self.timeout_s if limit_s is None else limit_s
        deadline, rest = time.monotonic() + limit, self.poll_s
        time.sleep(min(first_s, limit))
        while True:
            found = look()
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                told = f"{what} did not {verb} within {limit:.0f} s"
                raise Overdue(told, why=why, remedy=self.remedy, details=details)
            time.sleep(min(rest, max(deadline - time.monotonic(), 0.0)))
            rest = min(rest * self.growth, self.slowest_poll_s)
