"""Server-sent events read from the ledger. A client that was cut off resumes after its Last-Event-ID.
A stream ends with the credential of its caller."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from anyio import to_thread

from coterie.director.access import tokens
from coterie.director.access.caller import Caller, current
from coterie.director.context import AppContext
from coterie.director.middleware.api_version import hide_newer_fields
from coterie.ledger.store import Tx
from coterie.ledger.views import events, tasks
from coterie.redact import hide

T = TypeVar("T")
Source = AsyncIterator[str]
_BATCH = 500
_LOOK_S = 0.15
_HEARTBEAT_S = 10.0
_RECHECK_S = 1.0


async def task_events(context: AppContext, task: int, last: int) -> Source:
    """All events of a task after the `last`-th, then `end` with the task as it ended."""
    quiet, credential = 0.0, _Credential(current())
    while not context.ending:
        rows, ended = await _run(context, _read_task, context, task, last, credential)
        if credential.ended:
            return
        for row in rows:
            yield _message(row["n"], row["kind"], row)
            last = row["n"]
        if ended is not None and len(rows) < _BATCH:
            yield _message(None, "end", ended)
            return
        quiet = 0.0 if rows else quiet + _LOOK_S
        if quiet > _HEARTBEAT_S:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(0 if rows else _LOOK_S)


async def all_events(context: AppContext, last: int | None, wanted: events.Filter = events.EVERY) -> Source:
    """Every wanted event from now on, or from after `last`."""
    tail = await _run(context, _tail, context, last, wanted)
    yield ": following\n\n"
    quiet, credential = 0.0, _Credential(current())
    while not context.ending:
        rows = await _run(context, _read_tail, context, tail, credential)
        if credential.ended:
            return
        for row in rows:
            yield _message(row["id"], row["kind"], row)
        quiet = 0.0 if rows else quiet + _LOOK_S
        if quiet > _HEARTBEAT_S:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(0 if rows else _LOOK_S)


class _Credential:
    """Whether the caller may still read: checked with every event, and once a second while there are none."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._checked_at = time.monotonic()
        self.ended = False

    def check(self, tx: Tx, *, now: bool) -> None:
        if now or time.monotonic() - self._checked_at >= _RECHECK_S:
            self._checked_at = time.monotonic()
            self.ended = not tokens.is_still_valid(tx, self._caller)


async def _run(context: AppContext, read: Callable[..., T], *arguments: Any) -> T:
    # In threads of their own: many streams must not keep other requests waiting for one.
    return await to_thread.run_sync(read, *arguments, limiter=context.stream_threads)


def _read_task(
    context: AppContext, task: int, last: int, credential: _Credential
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    with context.ledger.read() as tx:
        # Read the state before the events: then all events of a task that has ended are among them.
        state = tasks.state(tx, task)
        rows = events.after(tx, task, last, _BATCH)
        credential.check(tx, now=bool(rows) or state not in tasks.UNFINISHED)
        return rows, tasks.one(tx, task) if state not in tasks.UNFINISHED else None


def _tail(context: AppContext, last: int | None, wanted: events.Filter) -> events.Tail:
    with context.ledger.read() as tx:
        return events.Tail(events.newest(tx) if last is None else last, wanted)


def _read_tail(context: AppContext, tail: events.Tail, credential: _Credential) -> list[dict[str, Any]]:
    with context.ledger.read() as tx:
        rows = tail.more(tx, _BATCH)
        credential.check(tx, now=bool(rows))
        return rows


def _message(number: int | None, kind: str, data: dict[str, Any]) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(hide_newer_fields(hide(data)), separators=(',', ':'))}\n\n"
