"""Tells an open page that something has changed, by server-sent events; the page then reads itself again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from coterie.director.console.page import Page

_CHANGED = "event: changed\ndata: 1\n\n"
_QUIET = ": still here\n\n"
_TICK_S = 1.0
_SLOWEST_S = 60.0


async def all_changes(page: Page) -> Response:
    """`every`: seconds after which a page with ages and heartbeats is read again without an event."""
    given = page.query.get("every", "")
    every = min(_SLOWEST_S, max(_TICK_S, float(given))) if given.isdigit() else None
    after = page.query.get("after", "")
    return _stream(_changes(page, "/v1/events", every, {"last-event-id": after} if after.isdigit() else {}))


async def changes_of_task(page: Page) -> Response:
    """Also without an event once a second, while the task runs: the bars of its steps grow."""
    task = page.request.path_params["task"]
    if (await page.api.get(f"/v1/tasks/{task}"))["ended_at"] is not None:
        return Response(status_code=204)  # the browser connects no more
    return _stream(_changes(page, f"/v1/tasks/{task}/events", _TICK_S, {}))


def _stream(source: AsyncIterator[str]) -> Response:
    return StreamingResponse(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _changes(page: Page, path: str, every: float | None, headers: dict[str, str]) -> AsyncIterator[str]:
    async with aclosing(page.api.stream(path, headers)) as blocks:  # type: ignore[type-var]  # an async generator
        waiting: asyncio.Future[str] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(blocks))
                done, _ = await asyncio.wait({waiting}, timeout=every)
                if not done:
                    yield _CHANGED
                    continue
                block = waiting.result()
                waiting = None
                yield _CHANGED if "data:" in block else _QUIET
        except StopAsyncIteration:
            yield _CHANGED
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)


ROUTES = (("GET", "/live", all_changes), ("GET", "/live/tasks/{task:int}", changes_of_task))
