"""Events: as pages, or as a stream that ends with the task and can be resumed where it broke."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from coterie.director.access import caller
from coterie.director.context import AppContext, Context
from coterie.director.http import stream
from coterie.director.http.filters import require_names
from coterie.director.http.reply import Json, Listing, Part, Resource, SafeJson, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.routes.tasks import TaskId
from coterie.ledger.views import events, tasks
from coterie.ledger.views.page import Slice

router = noun("events", "/v1")
LastEvent = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=2**53)]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page, or with `Accept: text/event-stream` a stream",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Event(Resource):
    id: int
    task: int | None
    n: int
    at: str
    kind: str
    subject: str
    body: str
    data: Any


@router.get("/tasks/{task}/events", response_model=Listing[Event], responses=_STREAM)
async def of_task(context: Context, request: Request, task: TaskId, part: Part, last: LastEvent = None) -> Response:
    """Oldest first. The stream's ids are the events' numbers in the task; its last event is `end` with the task."""
    if _wants_stream(request):
        await run_in_threadpool(_exists, context, task)
        return _EventStream(context, stream.task_events(context, task, last or 0))
    return SafeJson(await run_in_threadpool(_page_of_task, context, task, part))


@router.get("/events", response_model=Listing[Event], responses=_STREAM)
async def index(
    context: Context,
    request: Request,
    part: Part,
    kind: Word | None = None,
    subject: Word | None = None,
    deployment: Word | None = None,
    without: Annotated[
        Word | None, Query(description="a kind of task whose begin and end are left out, e.g. look")
    ] = None,
    last: LastEvent = None,
) -> Response:
    """Newest first; the stream begins now, or after Last-Event-ID. Both are of the events that are wanted."""
    wanted = events.Filter(kind, subject, deployment, without)
    if _wants_stream(request):
        return _EventStream(context, stream.all_events(context, last, wanted))
    return SafeJson(await run_in_threadpool(_page, context, part, wanted))


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _exists(context: AppContext, task: int) -> None:
    with context.ledger.read() as tx:
        tasks.state(tx, task)


def _page_of_task(context: AppContext, task: int, part: Slice) -> Json:
    with context.ledger.read() as tx:
        tasks.state(tx, task)
        return listing(events.of_task(tx, task, part))


def _page(context: AppContext, part: Slice, wanted: events.Filter) -> Json:
    with context.ledger.read() as tx:
        return listing(require_names(tx, events.page(tx, part, wanted), deployment=wanted.deployment))


class _EventStream(StreamingResponse):
    """Takes one of the caller's slots until it ends. The owner of the socket has no limit."""

    def __init__(self, context: AppContext, source: stream.Source) -> None:
        super().__init__(source, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._slots = context.streams if context.locked else None
        self._caller = caller.current().identity
        if self._slots is not None:
            self._slots.take(self._caller)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._slots is not None:
                self._slots.release(self._caller)
