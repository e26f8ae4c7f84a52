"""Persistent disks: attached to nodes, or kept for the undo window."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Context
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Accepted, Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.states import DiskState
from coterie.ledger.views import objects

router = noun("disks", "/v1/disks")


class Disk(Resource):
    intent: str
    cid: str | None
    cloud: str
    az: str | None
    state: str
    size_mb: int
    deployment: str | None
    ref: str | None
    node: str | None
    vm_cid: str | None
    created_at: str


class DisksToDelete(BaseModel):
    """Kept disks, by intent."""

    model_config = ConfigDict(extra="forbid")
    disks: list[Word] = Field(min_length=1, max_length=10_000)


@router.get("", response_model=Listing[Disk])
def index(
    context: Context,
    part: Part,
    deployment: Word | None = None,
    state: DiskState | None = None,
    cloud: Word | None = None,
) -> Json:
    with context.ledger.read() as tx:
        found = objects.disks(tx, part, deployment=deployment, state=state, cloud=cloud)
        return listing(require_names(tx, found, deployment=deployment, cloud=cloud))


@router.get("/{intent}", response_model=Disk)
def show(context: Context, intent: Annotated[Word, Path()]) -> Json:
    with context.ledger.read() as tx:
        return objects.disk(tx, intent)


@router.delete("/{intent}", status_code=202, response_model=Accepted)
def delete(context: Context, request: Request, intent: Annotated[Word, Path()], key: Key = None) -> Response:
    """Delete a kept disk and its data. One that a node uses is refused (409)."""
    return run_once(
        context, request, key, None, lambda: (202, {"task_id": deployments.delete_disks(context, [intent])})
    )


@router.post("/delete", status_code=202, response_model=Accepted)
def delete_several(context: Context, request: Request, body: DisksToDelete, key: Key = None) -> Response:
    """Delete kept disks and their data in one task. If a node uses one of them, none is deleted (409)."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.delete_disks(context, body.disks)}

    return run_once(context, request, key, body.model_dump(), work)
