"""The memory of every cloud object, and the operator's word on one whose outcome no cloud can tell."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import BaseModel, Field

from coterie.director.context import Here
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, once
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


class Verdict(BaseModel):
    """What an operator found in the cloud: its CID there, or null for nothing."""

    cid: str | None = Field(default=None, min_length=1, max_length=255, pattern=r"^[!-~]+$")


@router.get("", response_model=Listing[CloudObject])
def index(
    office: Here,
    part: Part,
    kind: Word | None = None,
    state: ObjectState | None = None,
    cloud: Word | None = None,
    deployment: Word | None = None,
) -> Json:
    with office.ledger.read() as tx:
        found = objects.page(tx, part, kind=kind, state=state, cloud=cloud, deployment=deployment)
        return listing(require_names(tx, found, deployment=deployment, cloud=cloud))


@router.get("/{intent}", response_model=CloudObject)
def show(office: Here, intent: Annotated[Word, Path()]) -> Json:
    with office.ledger.read() as tx:
        return objects.one(tx, intent)


@router.post("/{intent}/settle", response_model=CloudObject)
def settle(
    office: Here, request: Request, intent: Annotated[Word, Path()], verdict: Verdict, key: Key = None
) -> Response:
    """Say what became of an object in doubt, where its cloud can not be asked."""

    def work() -> tuple[int, Json]:
        deployments.settle(office, intent, verdict.cid)
        with office.ledger.read() as tx:
            return 200, objects.one(tx, intent)

    return once(office, request, key, verdict.model_dump(), work)
