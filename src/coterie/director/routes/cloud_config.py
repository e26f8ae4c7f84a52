"""The cloud config: clouds, azs, vm types, disk types, networks. Secrets in it are accepted, never shown."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from coterie.director.context import AppContext, Context
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import IfMatch, Json, Resource, require_match, tag
from coterie.director.http.request_body import Body, read_document
from coterie.director.routes.noun import noun
from coterie.director.services.clouds import set_cloud_config
from coterie.errors import NotFound
from coterie.ledger.views import clouds
from coterie.redact import hide_yaml, refuse_redacted

router = noun("cloud config", "/v1/cloud-config")


class CloudConfig(Resource):
    id: int
    text: str
    hash: str
    created_at: str


class CloudConfigBody(BaseModel):
    """A document and the name that mistakes in it are reported under."""

    text: str = Field(max_length=4 * 2**20)
    file: str = Field("cloud-config", max_length=1000)


@router.get("", response_model=CloudConfig)
def show(context: Context, response: Response) -> Json:
    """The one in force, secret values hidden. Its ETag is what If-Match of a change must name."""
    with context.ledger.read() as tx:
        found = clouds.config(tx)
    response.headers["ETag"] = tag(found["id"])
    return {**found, "text": hide_yaml(found["text"])}


@router.put("", response_model=CloudConfig, openapi_extra=Body.yaml_or(CloudConfigBody))
async def replace(context: Context, request: Request, key: Key = None, if_match: IfMatch = None) -> Response:
    """Set it, as text/yaml or as JSON {text, file}. All mistakes are reported at once."""
    body = await read_document(request, CloudConfigBody, "cloud-config")
    return await run_in_threadpool(_replace, context, request, key, if_match, body)


def _replace(
    context: AppContext, request: Request, key: str | None, if_match: str | None, body: CloudConfigBody
) -> Response:
    def work() -> tuple[int, dict[str, Any]]:
        require_match(if_match, _present(context), "the cloud config")
        refuse_redacted(body.text, body.file)
        set_cloud_config(context, body.text, body.file)
        with context.ledger.read() as tx:
            found = clouds.config(tx)
        return 200, {**found, "text": hide_yaml(found["text"])}

    response = run_once(context, request, key, body.model_dump(), work)
    response.headers["ETag"] = tag(_present(context))
    return response


def _present(context: AppContext) -> int:
    try:
        with context.ledger.read() as tx:
            return int(clouds.config(tx)["id"])
    except NotFound:
        return 0
