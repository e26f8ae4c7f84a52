"""Long-running operations: begun by a request, done some time later, with an outcome that was decided at the beginning
or is overtaken by a later request."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from coterie.sandbox.fronts.azure.refusals import ApiError

SUPERSEDED = "CanceledAndSupersededDueToAnotherOperation"


@dataclass(slots=True)
class Pending:
    """`end`: what happens to the resource when it is due. `error`: it fails. `output`: what its monitor answers."""

    subject: str
    due: float
    end: Callable[[], object]
    error: ApiError | None = None
    output: Any = None
    named: bool = True  # compute's operations tell their name and times, the network's only their status
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: float = field(default_factory=time.time)
    ended: float | None = None
    cancelled: bool = False


class Operations:
    def __init__(self) -> None:
        self._known: dict[str, Pending] = {}
        self._open: list[Pending] = []

    def begin(self, made: Pending) -> Pending:
        self._known[made.id] = made
        self._open.append(made)
        return made

    def finish_due(self, now: float) -> None:
        for one in [each for each in self._open if each.due <= now]:
            self._open.remove(one)
            one.ended = now
            if not one.cancelled:
                one.end()

    def open_for(self, subject: str) -> list[Pending]:
        return [one for one in self._open if one.subject == subject.lower()]

    def supersede(self, subject: str) -> None:
        """A later write drops what earlier ones would have done."""
        for one in self.open_for(subject):
            one.cancelled = True
            one.error = ApiError(409, SUPERSEDED, "The operation was canceled, since a later one replaced it.")

    def get(self, wanted: str) -> Pending | None:
        return self._known.get(wanted)


def status_of(one: Pending) -> dict[str, Any]:
    """As the operation's URL answers."""
    word = (
        "InProgress" if one.ended is None else "Canceled" if one.cancelled else "Failed" if one.error else "Succeeded"
    )
    found: dict[str, Any] = {"status": word}
    if one.named:
        found = {"startTime": moment(one.started), "status": word, "name": one.id}
        if one.ended is not None:
            found["endTime"] = moment(one.ended)
        if one.ended is not None and one.output is not None and not one.error:
            found["properties"] = {"output": one.output}
    if one.ended is not None and one.error:
        found["error"] = one.error.body()
    return found


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
