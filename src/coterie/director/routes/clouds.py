"""Clouds: what is configured, what each can do, and what it last said about itself."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Here, Office
from coterie.director.http.idempotency import Key, once
from coterie.director.http.redact import redact
from coterie.director.http.reply import (
    Accepted,
    IfMatch,
    Json,
    Listing,
    Part,
    Resource,
    Word,
    listing,
    require_match,
    tag,
)
from coterie.director.middleware.api_version import refuse_new
from coterie.director.routes.noun import noun
from coterie.director.services import cloud_questions, deployments, resealing
from coterie.director.services import clouds as cloud_wishes
from coterie.ledger.rows.clouds import config as in_force
from coterie.ledger.views import clouds

router = noun("clouds", "/v1/clouds")


class Fact(Resource):
    at: str
    data: Any
    error: dict[str, Any] | None


class Cloud(Resource):
    name: str
    driver: str
    conductor_group: str = ""
    properties: dict[str, Any]
    nodes: int


class NewCloud(BaseModel):
    """One more cloud for the cloud config."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[Word, Field(min_length=1)]
    driver: Annotated[Word, Field(min_length=1)]
    conductor_group: Annotated[str, Field(max_length=255)] = ""
    properties: dict[str, Any] = Field(default_factory=dict)


class CloudChange(BaseModel):
    """What of a cloud can be set by itself; the rest stands in the cloud config."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: Annotated[str, Field(max_length=255)]


class GrantWish(BaseModel):
    """Who gets the rights that the driver needs."""

    model_config = ConfigDict(extra="forbid")
    user: Annotated[Word, Field(min_length=1)]
    groups: bool = Field(False, description="those for server groups too")


class CloudDetail(Cloud):
    capabilities: dict[str, Any] | None
    facts: dict[str, Fact]


class Resealed(Resource):
    name: str
    key: str


@router.get("", response_model=Listing[Cloud])
def index(office: Here, part: Part) -> Json:
    with office.ledger.read() as tx:
        return listing(clouds.page(tx, part))


@router.post("", status_code=201, response_model=CloudDetail)
def add(office: Here, request: Request, wish: NewCloud, key: Key = None) -> Response:
    """Add a cloud: a new cloud config, with one more entry."""
    refuse_new(wish.model_dump(exclude_unset=True))

    def work() -> tuple[int, Json]:
        cloud_wishes.add_cloud(office, wish.model_dump(exclude_defaults=True))
        return 201, redact(_shown(office, wish.name))  # the reply is stored, and must hold no secret

    return once(office, request, key, wish.model_dump(), work)


@router.patch("/{name}", response_model=CloudDetail)
def change(
    office: Here, name: Annotated[Word, Path()], wish: CloudChange, response: Response, if_match: IfMatch = None
) -> Json:
    """Move it to another conductor group: a new cloud config, with one line changed."""
    refuse_new(wish.model_dump(exclude_unset=True))
    agree = partial(require_match, if_match, what=f"cloud {name}")
    cloud_wishes.move_cloud(office, name, wish.conductor_group, agree)
    return _tagged(office, name, response)


@router.get("/{name}", response_model=CloudDetail)
def show(office: Here, name: Annotated[Word, Path()], response: Response) -> Json:
    """With its capabilities and the latest facts, each dated. Its ETag is that of the cloud config it stands in."""
    return _tagged(office, name, response)


@router.post("/{name}/check", response_model=CloudDetail)
def check(office: Here, name: Annotated[Word, Path()]) -> Json:
    """Have a conductor ask the cloud now: credentials, privileges, quotas, hosts."""
    cloud_questions.check_cloud(office, name)
    return _shown(office, name)


@router.post("/{name}/reseal", response_model=Resealed)
def reseal(office: Here, request: Request, name: Annotated[Word, Path()], key: Key = None) -> Response:
    """Have a conductor of the cloud seal its properties anew, to the newest key that it holds."""
    return once(office, request, key, None, lambda: (200, {"name": name, "key": resealing.reseal(office, name)}))


@router.post("/{name}/grant", status_code=202, response_model=Accepted)
def grant(office: Here, request: Request, name: Annotated[Word, Path()], wish: GrantWish, key: Key = None) -> Response:
    """Make or renew the driver's role in the cloud and give it to a user, with the cloud's configured credentials."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.grant(office, name, wish.user, wish.groups)}

    return once(office, request, key, wish.model_dump(), work)


def _tagged(office: Office, name: str, response: Response) -> Json:
    with office.ledger.read() as tx:
        config = in_force(tx)
    response.headers["ETag"] = tag(config.id if config else 0)
    return _shown(office, name)


def _shown(office: Office, name: str) -> Json:
    with office.ledger.read() as tx:
        cloud = clouds.one(tx, name)
    said = cloud["facts"].get("check", {}).get("data") or {}
    return {**cloud, "capabilities": said.get("capabilities")}
