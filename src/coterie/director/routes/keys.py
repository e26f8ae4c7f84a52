"""Keys of conductor groups: their public halves, to which credentials of clouds are sealed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Context
from coterie.director.http import idempotency
from coterie.director.http.reply import Json, Listing, Resource
from coterie.director.routes.noun import noun
from coterie.director.services import sealing
from coterie.ledger.rows import keys

router = noun("keys", "/v1/keys")
_GROUP = r"^(\*|[A-Za-z0-9_.-]*)$"


class Key(Resource):
    id: str
    conductor_group: str = ""
    public: str
    published_by: str
    created_at: str


class PublishBody(BaseModel):
    """A public key, and the group whose conductors hold the private half; `*`: conductors that serve every group."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: str = Field(max_length=255, pattern=_GROUP)
    public: str = Field(max_length=100)


class RetireBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    conductor_group: str = Field(max_length=255, pattern=_GROUP)


@router.get("", response_model=Listing[Key])
def index(context: Context) -> Json:
    """By group, newest first: credentials are sealed to the first of each group."""
    with context.ledger.read() as tx:
        return {"items": keys.every(tx), "next": None}


@router.post("", status_code=204)
def publish(context: Context, request: Request, body: PublishBody, once_key: idempotency.Key = None) -> Response:
    def work() -> tuple[int, Json]:
        sealing.publish(context, body.conductor_group, body.public)
        return 204, {}

    return idempotency.run_once(context, request, once_key, body.model_dump(), work)


@router.post("/{key}/retire", status_code=204)
def retire(
    context: Context,
    request: Request,
    key: Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")],
    body: RetireBody,
    once_key: idempotency.Key = None,
) -> Response:
    """Forget a key that was replaced. Refused (409) while properties of a cloud are sealed to it."""

    def work() -> tuple[int, Json]:
        sealing.retire(context, body.conductor_group, key)
        return 204, {}

    return idempotency.run_once(context, request, once_key, body.model_dump(), work)
