"""The cloud config: clouds, azs, vm types, disk types, networks. Secrets in it are taken, never given back."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from coterie.director.context import Here, Office
from coterie.director.http import document
from coterie.director.http.idempotency import Key, once
from coterie.director.http.reply import IfMatch, Json, Resource, require_match, tag
from coterie.director.http.request_body import Body, read_document
from coterie.director.routes.noun import noun
from coterie.director.services import clouds as cloud_wishes
from coterie.errors import NotFound
from coterie.ledger.views import clouds

router = noun("cloud config", "/v1/cloud-config")


class CloudConfig(Resource):
    id: int
    text: str
    hash: str
    created_at: str


class Sent(BaseModel):
    """A document and the name that mistakes in it are reported under."""

    text: str = Field(max_length=4 * 2**20)
    file: str = Field("cloud-config", max_length=1000)


@router.get("", response_model=CloudConfig)
def show(office: Here, response: Response) -> Json:
    """The one in force, secret values hidden. Its ETag is what If-Match of a change must name."""
    with office.ledger.read() as tx:
        found = clouds.config(tx)
    response.headers["ETag"] = tag(found["id"])
    return {**found, "text": document.shown(found["text"])}


@router.put("", response_model=CloudConfig, openapi_extra=Body.yaml_or(Sent))
async def replace(office: Here, request: Request, key: Key = None, if_match: IfMatch = None) -> Response:
    """Set it, as text/yaml or as JSON {text, file}. All mistakes are told at once."""
    sent = await read_document(request, Sent, "cloud-config")
    return await run_in_threadpool(_replace, office, request, key, if_match, sent)


def _replace(office: Office, request: Request, key: str | None, if_match: str | None, sent: Sent) -> Response:
    def work() -> tuple[int, dict[str, Any]]:
        require_match(if_match, _present(office), "the cloud config")
        document.refuse_redacted(sent.text, sent.file)
        cloud_wishes.set_cloud_config(office, sent.text, sent.file)
        with office.ledger.read() as tx:
            found = clouds.config(tx)
        return 200, {**found, "text": document.shown(found["text"])}

    response = once(office, request, key, sent.model_dump(), work)
    response.headers["ETag"] = tag(_present(office))
    return response


def _present(office: Office) -> int:
    try:
        with office.ledger.read() as tx:
            return int(clouds.config(tx)["id"])
    except NotFound:
        return 0
