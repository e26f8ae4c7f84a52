"""The web console: a one-time link that logs its user in as the caller of this request."""

from __future__ import annotations

from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from coterie.director.access import caller
from coterie.director.console import sessions
from coterie.director.context import Context
from coterie.director.routes.noun import noun

router = noun("console", "/v1/console")


class Link(BaseModel):
    """Where the console is, for this caller."""

    path: str = Field(description="opens the console and logs in; works once, within two minutes")
    origin: str | None = Field(description="of a Director on a unix socket: the address that browsers reach it at")


@router.post("/links", status_code=201, response_model=Link)
async def make_link(context: Context) -> Link:
    """A Director on a unix socket begins to listen on a loopback port for it, where callers have to log in."""
    opened = context.open_loopback() if context.open_loopback is not None else None
    listener = opened.id if opened else ""
    code = await run_in_threadpool(sessions.make_link_code, context, caller.current(), listener)
    context.attempts.remember_success(code)  # wrong ones from the same address must not keep it out
    return Link(path=f"/login/link?code={code}", origin=opened.origin if opened else None)
