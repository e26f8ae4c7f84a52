"""Keys of conductor groups: their public halves, to which credentials of clouds are sealed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Here
from coterie.director.http import idempotency
from coterie.director.http.reply import Json, Listing, Resource
from coterie.director.routes.noun import noun
from coterie.director.services import resealing
from coterie.ledger.rows import keys

router = noun("keys", "/v1/keys")
_GROUP = r"^(\*|[A-Za-z0-9_.-]*)$"


class Key(Resource):
    id: str
    conductor_group: str
    public: str
    published_by: str
    created_at: str


class Published(BaseModel):
    """A public key, and the group whose conductors hold the private half; `*`: those that stand in for every group."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: str = Field(max_length=255, pattern=_GROUP)
    public: str = Field(max_length=100)


class Retired(BaseModel):
    model_config = ConfigDict(extra="forbid")
    conductor_group: str = Field(max_length=255, pattern=_GROUP)


@router.get("", response_model=Listing[Key])
def index(office: Here) -> Json:
    """By group, newest first: the first of each group is the one that is sealed to."""
    with office.ledger.read() as tx:
        return {"items": keys.every(tx), "next": None}


@router.post("", status_code=204)
def publish(office: Here, request: Request, published: Published, once_key: idempotency.Key = None) -> Response:
    def work() -> tuple[int, Json]:
        resealing.publish(office, published.conductor_group, published.public)
        return 204, {}

    return idempotency.once(office, request, once_key, published.model_dump(), work)


@router.post("/{key}/retire", status_code=204)
def retire(
    office: Here,
    request: Request,
    key: Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")],
    told: Retired,
    once_key: idempotency.Key = None,
) -> Response:
    """Forget a key that was replaced. Refused (409) while properties of a cloud are sealed to it."""

    def work() -> tuple[int, Json]:
        resealing.retire(office, told.conductor_group, key)
        return 204, {}

    return idempotency.once(office, request, once_key, told.model_dump(), work)
