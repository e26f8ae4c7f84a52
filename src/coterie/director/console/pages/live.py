"""Tells an open page that something has changed, by server-sent events; the page then reads itself again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

from anyio import to_thread
from starlette.responses import Response, StreamingResponse

from coterie.director.console.page import Page

_CHANGED = "event: changed\ndata: 1\n\n"
_QUIET = ": still here\n\n"
_TICK_S = 1.0
_SLOWEST_S = 60.0
_RECHECK_S = 1.0  # whether the session has ended


async def all_changes(page: Page) -> Response:
    """`every`: seconds after which a page with ages and heartbeats is read again without an event."""
    given = page.query.get("every", "")
    every = min(_SLOWEST_S, max(_TICK_S, float(given))) if _is_number(given) else None
    after = page.query.get("after", "")
    return _stream(_changes(page, "/v1/events", every, {"last-event-id": after} if _is_number(after) else {}))


async def changes_of_task(page: Page) -> Response:
    """Also without an event once a second, while the task runs: the bars of its steps grow."""
    task = page.request.path_params["task"]
    if (await page.api.get(f"/v1/tasks/{task}"))["ended_at"] is not None:
        return Response(status_code=204)  # the browser connects no more
    return _stream(_changes(page, f"/v1/tasks/{task}/events", _TICK_S, {}))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _stream(source: AsyncIterator[str]) -> Response:
    return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _changes(page: Page, path: str, every: float | None, headers: dict[str, str]) -> AsyncIterator[str]:
    async with aclosing(page.api.stream(path, headers)) as blocks:  # type: ignore[type-var]  # an async generator
        waiting: asyncio.Future[str] | None = None
        checked = told = time.monotonic()
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(blocks))
                done, _ = await asyncio.wait({waiting}, timeout=min(every or _RECHECK_S, _RECHECK_S))
                now = time.monotonic()
                if now - checked >= _RECHECK_S:
                    checked = now
                    if not await to_thread.run_sync(page.has_session, limiter=page.context.stream_threads):
                        return  # where the ledger did not answer, the browser connects again
                if done:
                    block = waiting.result()
                    waiting, told = None, now
                    yield _CHANGED if "data:" in block else _QUIET
                elif every is not None and now - told >= every:
                    told = now
                    yield _CHANGED
        except StopAsyncIteration:
            yield _CHANGED
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


ROUTES = (("GET", "/live", all_changes), ("GET", "/live/tasks/{task:int}", changes_of_task))
