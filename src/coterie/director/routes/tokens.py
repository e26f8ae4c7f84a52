"""API tokens: made by admins, shown once, listed without their secret, revoked for good. And who one is oneself."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.access import caller
from coterie.director.access.tokens import DAYS, LONGEST_DAYS, create
from coterie.director.context import Here
from coterie.director.http.idempotency import Key, answered, first_time
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


class Made(Token):
    text: str


class Wanted(BaseModel):
    """Whom it is for and what it may do. `teams` null: not limited to teams."""

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
    """Who this Director takes the caller for, and what they may do."""
    me = caller.present()
    teams = None if me.teams is None else sorted(me.teams)
    return {"name": me.name, "role": me.role, "how": me.how, "teams": teams, "detail": me.detail}


@router.get("/tokens", response_model=Listing[Token])
def index(office: Here, part: Part) -> Json:
    with office.ledger.read() as tx:
        return listing(tokens.page(tx, part))


@router.post("/tokens", status_code=201, response_model=Made)
def make(office: Here, request: Request, wanted: Wanted, key: Key = None) -> Response:
    """The only answer that ever holds the token itself (`text`): it is not kept, only its hash. So a request that is
    repeated with its Idempotency-Key makes no second one, and is told (409) which one it made."""
    with office.ledger.write() as tx:
        first_time(tx, request, key, wanted.model_dump())
        made = create(tx, wanted.name, wanted.role, wanted.teams, caller.present().name, wanted.days)
        shown = tokens.one(tx, made.id)
        answered(
            tx,
            key,
            201,
            what=f"token {made.id} was made by this request before",
            why="its text was in that answer only, and is kept nowhere",
            remedy=f"if that answer was lost, revoke it (coterie tokens revoke {made.id}) and make another one, "
            "with a fresh Idempotency-Key",
        )
    headers = {"Location": f"/v1/tokens/{made.id}", "Cache-Control": "no-store"}
    return JSONResponse({**shown, "text": made.text}, 201, headers)


@router.get("/tokens/{token}", response_model=Token)
def show(office: Here, token: Annotated[Word, Path()]) -> Json:
    with office.ledger.read() as tx:
        return tokens.one(tx, token)


@router.delete("/tokens/{token}", status_code=204)
def revoke(office: Here, token: Annotated[Word, Path()]) -> Response:
    """From now on it opens nothing."""
    with office.ledger.write() as tx:
        tokens.revoke(tx, token)
    return Response(status_code=204)
