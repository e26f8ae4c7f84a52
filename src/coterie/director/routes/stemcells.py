"""Stemcells: the catalogue of images that nodes are made of."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import AppContext, Context
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Json, Listing, Part, Resource, Word, listing
from coterie.director.http.request_body import read_json
from coterie.director.middleware.request_limits import TARBALLS
from coterie.director.routes.noun import noun
from coterie.director.services import stemcells
from coterie.director.services.stemcells import Upload, receive, store_image
from coterie.errors import UsageError
from coterie.ledger.views.stemcells import one, page

router = noun("stemcells", "/v1/stemcells")


class Stemcell(Resource):
    name: str
    version: str
    os: str | None
    light: bool
    sha256: str | None
    cloud_properties: dict[str, Any]
    formats: list[str]
    clouds: list[str]
    created_at: str


class Light(BaseModel):
    """An image that the clouds have already: cloud_properties say where."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")
    version: str = Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")
    os: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")] | None = Field(
        None, description="its operating system, for manifests that name that instead of a stemcell"
    )
    cloud_properties: dict[str, Any] = Field(min_length=1, description="what names the image in the clouds")
    formats: list[Word] = Field(default_factory=list, max_length=100)


_BODIES = {
    "requestBody": {
        "required": True,
        "content": {
            "application/gzip": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": Light.model_json_schema()},
        },
    }
}


@router.get("", response_model=Listing[Stemcell])
def index(context: Context, part: Part) -> Json:
    with context.ledger.read() as tx:
        return listing(page(tx, part))


@router.get("/{name}/{version}", response_model=Stemcell)
def show(context: Context, name: Annotated[Word, Path()], version: Annotated[Word, Path()]) -> Json:
    with context.ledger.read() as tx:
        return one(tx, name, version)


@router.post("", status_code=201, response_model=Stemcell, openapi_extra=_BODIES)
async def add(context: Context, request: Request, key: Key = None) -> Response:
    """Upload a BOSH stemcell tarball (streamed), or describe a light stemcell as JSON. The same one again is fine."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        light = read_json(await request.body(), Light)
        return await run_in_threadpool(_add_light, context, request, key, light)
    if kind not in TARBALLS:
        raise UsageError(
            f"a body of type {kind or 'nothing'} is not understood", remedy="send application/gzip or JSON"
        )
    async with receive(request.stream(), context.state_folder.stemcells) as upload:
        return await run_in_threadpool(_add, context, request, key, upload)


@router.delete("/{name}/{version}", status_code=204)
def delete(context: Context, name: Annotated[Word, Path()], version: Annotated[Word, Path()]) -> Response:
    """Take it out of the stemcells. One that a cloud still holds an image of is refused (409)."""
    stemcells.delete(context, name, version)
    return Response(status_code=204)


def _add(context: AppContext, request: Request, key: str | None, upload: Upload) -> Response:
    def work() -> tuple[int, Json]:
        image = store_image(upload, context.state_folder.stemcells)
        stemcells.add(context, image)
        return 201, _show(context, image.name, image.version)

    return run_once(context, request, key, upload.digest, work)


def _add_light(context: AppContext, request: Request, key: str | None, light: Light) -> Response:
    def work() -> tuple[int, Json]:
        stemcells.add_light(context, light.name, light.version, light.os, light.cloud_properties, light.formats)
        return 201, _show(context, light.name, light.version)

    return run_once(context, request, key, light.model_dump(), work)


def _show(context: AppContext, name: str, version: str) -> Json:
    with context.ledger.read() as tx:
        return one(tx, name, version)
