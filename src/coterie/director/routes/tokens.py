"""API tokens: created by admins, shown once, listed without their secret, revoked for good; and whoami."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.access import caller
from coterie.director.access.tokens import DAYS, LONGEST_DAYS, create
from coterie.director.context import Context
from coterie.director.http.idempotency import Key, reserve_key, store_reply
from coterie.director.http.reply import Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.ledger.rows import tokens

router = noun("tokens", "/v1")
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$")]


class Token(Resource):
    id: str
    name: str
    role: str
    teams: list[str] | None
    state: str
    created_by: str
    created_at: str
    expires_at: str
    revoked_at: str | None


class NewToken(Token):
    text: str


class TokenBody(BaseModel):
    """The name of its user and what it may do. `teams` null: not limited to teams."""

    model_config = ConfigDict(extra="forbid")
    name: Name
    role: Literal["admin", "operator", "viewer"] = "viewer"
    teams: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = DAYS


class Me(Resource):
    name: str
    role: str
    how: str
    teams: list[str] | None
    detail: str


@router.get("/whoami", response_model=Me)
def whoami() -> Json:
    """The caller as this Director sees it, and what it may do."""
    me = caller.current()
    teams = None if me.teams is None else sorted(me.teams)
    return {"name": me.name, "role": me.role, "how": me.how, "teams": teams, "detail": me.detail}


@router.get("/tokens", response_model=Listing[Token])
def index(context: Context, part: Part) -> Json:
    with context.ledger.read() as tx:
        return listing(tokens.page(tx, part))


@router.post("/tokens", status_code=201, response_model=NewToken)
def make(context: Context, request: Request, body: TokenBody, key: Key = None) -> Response:
    """The only answer that ever holds the token itself (`text`): only its hash is stored. So a request that is
    repeated with its Idempotency-Key creates no second token; the answer (409) names the first one."""
    with context.ledger.write() as tx:
        reserve_key(tx, request, key, body.model_dump())
        token_row = create(tx, body.name, body.role, body.teams, caller.current().name, body.days)
        shown = tokens.one(tx, token_row.id)
        store_reply(
            tx,
            key,
            201,
            what=f"token {token_row.id} was created by this request before",
            why="its text was in that answer only, and is stored nowhere",
            remedy=f"if that answer was lost, revoke it (coterie tokens revoke {token_row.id}) and make another one, "
            "with a fresh Idempotency-Key",
        )
    headers = {"Location": f"/v1/tokens/{token_row.id}", "Cache-Control": "no-store"}
    return JSONResponse({**shown, "text": token_row.text}, 201, headers)


@router.get("/tokens/{token}", response_model=Token)
def show(context: Context, token: Annotated[Word, Path()]) -> Json:
    with context.ledger.read() as tx:
        return tokens.one(tx, token)


@router.delete("/tokens/{token}", status_code=204)
def revoke(context: Context, token: Annotated[Word, Path()]) -> Response:
    """From now on the token is refused."""
    with context.ledger.write() as tx:
        tokens.revoke(tx, token)
    return Response(status_code=204)
