"""The record of every cloud object, and an operator's answer for one whose outcome no cloud can show."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import BaseModel, Field

from coterie.director.context import Context
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.states import ObjectState
from coterie.ledger.views import objects

router = noun("objects", "/v1/objects")


class CloudObject(Resource):
    intent: str
    kind: str
    cloud: str
    az: str | None
    state: str
    cid: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    size_mb: int
    properties: dict[str, Any] | None
    tombstone: bool
    created_at: str
    doubt_since: str | None
    ended_at: str | None


class SettleBody(BaseModel):
    """What an operator found in the cloud: its CID there, or null for nothing."""

    cid: str | None = Field(default=None, min_length=1, max_length=255, pattern=r"^[!-~]+$")


@router.get("", response_model=Listing[CloudObject])
def index(
    context: Context,
    part: Part,
    kind: Word | None = None,
    state: ObjectState | None = None,
    cloud: Word | None = None,
    deployment: Word | None = None,
) -> Json:
    with context.ledger.read() as tx:
        found = objects.page(tx, part, kind=kind, state=state, cloud=cloud, deployment=deployment)
        return listing(require_names(tx, found, deployment=deployment, cloud=cloud))


@router.get("/{intent}", response_model=CloudObject)
def show(context: Context, intent: Annotated[Word, Path()]) -> Json:
    with context.ledger.read() as tx:
        return objects.one(tx, intent)


@router.post("/{intent}/settle", response_model=CloudObject)
def settle(
    context: Context, request: Request, intent: Annotated[Word, Path()], body: SettleBody, key: Key = None
) -> Response:
    """Set the outcome of an object in doubt whose cloud cannot be searched for it."""

    def work() -> tuple[int, Json]:
        deployments.settle(context, intent, body.cid)
        with context.ledger.read() as tx:
            return 200, objects.one(tx, intent)

    return run_once(context, request, key, body.model_dump(), work)
