"""Waits for the vCenter's tasks by reading their state; a task outlives the connection that started it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from coterie.cpi.contract import OutcomeUnknown, Unavailable
from coterie.cpi.drivers.vsphere.link import Link
from coterie.cpi.drivers.vsphere.reading import Reader, Row
from coterie.cpi.drivers.vsphere.refusals import Refusal

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 1.0
_BROKEN_READS = 5


class Tasks:
    def __init__(self, link: Link, reader: Reader, limit_s: float) -> None:
        self._link = link
        self._reader = reader
        self._limit_s = limit_s

    def run(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Start a task and wait for its result; its error is raised as a refusal."""
        return self.finished(self._link.change(method, *arguments, **named))

    def finished(self, task: Any) -> Any:
        give_up, pause, broken = time.monotonic() + self._limit_s, _FIRST_PAUSE_S, 0
        while time.monotonic() < give_up:
            try:
                row = self._reader.one(task, "info.state", "info.error", "info.result")
            except Unavailable:
                broken += 1
                if broken > _BROKEN_READS:
                    break
                row = None
            if row and row.get("info.state") in ("success", "error"):
                return _result(row)
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        raise OutcomeUnknown(
            f"task {task._moId} was not seen to end",
            why=f"it still ran after {self._limit_s:.0f} s, or its state could not be read",
            remedy="look for what it may have made before repeating it",
        )


def _result(row: Row) -> Any:
    if row.get("info.state") == "error":
        raise Refusal(row.get("info.error"))
    return row.get("info.result")
