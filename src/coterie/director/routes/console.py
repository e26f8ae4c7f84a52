"""The web console: a one-time link that logs its user in as the caller of this request; and sessions, listed and ended
by admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import BaseModel, Field

from coterie.director.access import caller
from coterie.director.console import sessions
from coterie.director.context import Context
from coterie.director.http.reply import Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.ledger.rows import sessions as rows
from coterie.ledger.rows import tokens

router = noun("console", "/v1/console")


class Link(BaseModel):
    """Where the console is, for this caller."""

    path: str = Field(description="opens the console and logs in; works once, within two minutes")
    origin: str | None = Field(description="of a Director on a unix socket: the address that browsers reach it at")


Of = Annotated[Word | None, Query(description="only those of callers with this name")]


class ConsoleSession(Resource):
    """`how`: token, oidc or socket; `detail`: the token's id, or the issuer's subject. `state`: `over` where the token
    that it was begun with has been revoked or has expired since."""

    id: str
    name: str
    role: str
    teams: list[str] | None
    how: str
    detail: str
    state: str
    created_at: str
    expires_at: str


class EndedSessions(BaseModel):
    """How many sessions."""

    ended: int


@router.get("/sessions", response_model=Listing[ConsoleSession])
def list_sessions(context: Context, part: Part, name: Of = None) -> Json:
    """Those that are logged in; without what their browsers hold."""
    with context.ledger.read() as tx:
        found, valid = rows.page(tx, part, name), tokens.valid_ids(tx)
    items = [{**one, "state": "over" if _has_lost_its_token(one, valid) else "valid"} for one in found.items]
    return listing(found._replace(items=items))


def _has_lost_its_token(session: Json, valid: frozenset[str]) -> bool:
    return bool(session["how"] == "token" and session["detail"] and session["detail"] not in valid)


@router.delete("/sessions/{session}", status_code=204)
def end_session(context: Context, session: Annotated[Word, Path()]) -> Response:
    """From now on its browser has to log in again, which its user can do."""
    with context.ledger.write() as tx:
        rows.end_one(tx, session)
    return Response(status_code=204)


@router.delete("/sessions", response_model=EndedSessions)
def end_sessions(context: Context, name: Of = None) -> Json:
    """All of them, or those of callers with this name; and the links by which they would log in."""
    with context.ledger.write() as tx:
        return {"ended": rows.end_all(tx, name)}


@router.post("/links", status_code=201, response_model=Link)
async def make_link(context: Context) -> Link:
    """A Director on a unix socket begins to listen on a loopback port for it, where callers have to log in."""
    opened = context.open_loopback() if context.open_loopback is not None else None
    listener = opened.id if opened else ""
    code = await run_in_threadpool(sessions.make_link_code, context, caller.current(), listener)
    context.attempts.remember_success(code)  # wrong ones from the same address must not keep it out
    return Link(path=f"/login/link?code={code}", origin=opened.origin if opened else None)
