"""Server-sent events read from the ledger. A client that was cut off resumes after its Last-Event-ID."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi.concurrency import run_in_threadpool

from coterie.director.context import AppContext
from coterie.director.http.redact import redact
from coterie.director.middleware.api_version import hide_newer_fields
from coterie.ledger.views import events, tasks

Source = AsyncIterator[str]
_BATCH = 500
_LOOK_S = 0.15
_HEARTBEAT_S = 10.0


async def task_events(context: AppContext, task: int, last: int) -> Source:
    """All events of a task after the `last`-th, then `end` with the task as it ended."""
    quiet = 0.0
    while not context.ending:
        rows, ended = await run_in_threadpool(_read_task, context, task, last)
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


async def all_events(context: AppContext, last: int | None) -> Source:
    """Every event from now on, or from after `last`."""
    tail = await run_in_threadpool(_tail, context, last)
    yield ": following\n\n"
    quiet = 0.0
    while not context.ending:
        rows = await run_in_threadpool(_read_tail, context, tail)
        for row in rows:
            yield _message(row["id"], row["kind"], row)
        quiet = 0.0 if rows else quiet + _LOOK_S
        if quiet > _HEARTBEAT_S:
            yield ": still here\n\n"
            quiet = 0.0
        await asyncio.sleep(0 if rows else _LOOK_S)


def _read_task(context: AppContext, task: int, last: int) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    with context.ledger.read() as tx:
        # Read the state before the events: then all events of a task that has ended are among them.
        state = tasks.state(tx, task)
        rows = events.after(tx, task, last, _BATCH)
        return rows, tasks.one(tx, task) if state not in tasks.UNFINISHED else None


def _tail(context: AppContext, last: int | None) -> events.Tail:
    with context.ledger.read() as tx:
        return events.Tail(events.newest(tx) if last is None else last)


def _read_tail(context: AppContext, tail: events.Tail) -> list[dict[str, Any]]:
    with context.ledger.read() as tx:
        return tail.more(tx, _BATCH)


def _message(number: int | None, kind: str, data: dict[str, Any]) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(hide_newer_fields(redact(data)), separators=(',', ':'))}\n\n"
