"""Clouds: what is configured, what each can do, and the latest facts about each."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.cpi.contract import Capabilities
from coterie.director.access import caller
from coterie.director.context import AppContext, Context
from coterie.director.http.idempotency import Key, run_once
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
from coterie.director.middleware.api_version import refuse_newer_fields
from coterie.director.routes.noun import noun
from coterie.director.services import cloud_questions, deployments, sealing
from coterie.director.services.clouds import add_cloud, move_cloud
from coterie.ledger.rows.clouds import config as current_config
from coterie.ledger.views import clouds
from coterie.redact import hide
from coterie.requests import pinned_clouds

router = noun("clouds", "/v1/clouds")


class Fact(Resource):
    at: str
    data: Any
    error: dict[str, Any] | None


class Cloud(Resource):
    name: str
    driver: str
    conductor_group: str = ""
    other_conductor_groups: list[str] = Field(default_factory=list)
    properties: dict[str, Any]
    nodes: int
    pinned_to: str | None = Field(None, description="the account that its objects are in, as the cloud identifies it")
    alarms: list[dict[str, Any]] = Field(
        default_factory=list, description="kind, since, body, remedy; while there is one, nothing is made anew in it"
    )


class NewCloud(BaseModel):
    """One more cloud for the cloud config."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[Word, Field(min_length=1)]
    driver: Annotated[Word, Field(min_length=1)]
    conductor_group: Annotated[str, Field(max_length=255)] = ""
    other_conductor_groups: list[Annotated[str, Field(max_length=255)]] = Field(default_factory=list, max_length=100)
    properties: dict[str, Any] = Field(default_factory=dict)


class CloudChange(BaseModel):
    """What of a cloud can be set by itself; the rest stands in the cloud config."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: Annotated[str, Field(max_length=255)]


class GrantBody(BaseModel):
    """The user that gets the rights that the driver needs."""

    model_config = ConfigDict(extra="forbid")
    user: Annotated[Word, Field(min_length=1)]
    groups: bool = Field(False, description="those for server groups too")


class PinBody(BaseModel):
    """The account that the objects of a cloud are in now, as the cloud identifies it."""

    model_config = ConfigDict(extra="forbid")
    identity: Annotated[str, Field(min_length=1, max_length=1000)]


class Ended(Resource):
    name: str
    ended: list[str]


class CloudDetail(Cloud):
    capabilities: dict[str, Any] | None
    facts: dict[str, Fact]


class Resealed(Resource):
    name: str
    key: str = Field(description="that of the cloud's own group; empty: its properties are not sealed")
    sealed_to: dict[str, str] = Field(default_factory=dict, description="conductor group → key, for all of its groups")
    sealed_again: int = Field(0, description="how many env and user_data of these groups got another key")


@router.get("", response_model=Listing[Cloud])
def index(context: Context, part: Part) -> Json:
    with context.ledger.read() as tx:
        return listing(clouds.page(tx, part))


@router.post("", status_code=201, response_model=CloudDetail)
def add(context: Context, request: Request, body: NewCloud, key: Key = None) -> Response:
    """Add a cloud: a new cloud config, with one more entry."""
    refuse_newer_fields(body.model_dump(exclude_unset=True))

    def work() -> tuple[int, Json]:
        add_cloud(context, body.model_dump(exclude_defaults=True))
        return 201, hide(_show(context, body.name))  # the reply is stored, and must hold no secret

    return run_once(context, request, key, body.model_dump(), work)


@router.patch("/{name}", response_model=CloudDetail)
def change(
    context: Context, name: Annotated[Word, Path()], body: CloudChange, response: Response, if_match: IfMatch = None
) -> Json:
    """Move it to another conductor group: a new cloud config, with one line changed. One of its other groups changes
    places with it."""
    refuse_newer_fields(body.model_dump(exclude_unset=True))
    agree = partial(require_match, if_match, what=f"cloud {name}")
    move_cloud(context, name, body.conductor_group, agree)
    return _show_with_etag(context, name, response)


@router.get("/{name}", response_model=CloudDetail)
def show(context: Context, name: Annotated[Word, Path()], response: Response) -> Json:
    """With its capabilities and the latest facts, each dated. Its ETag is that of the cloud config it stands in."""
    return _show_with_etag(context, name, response)


@router.post("/{name}/check", response_model=CloudDetail)
def check(context: Context, name: Annotated[Word, Path()]) -> Json:
    """Have a conductor check the cloud now: credentials, privileges, quotas, hosts."""
    cloud_questions.check_cloud(context, name)
    return _show(context, name)


@router.post("/{name}/reseal", response_model=Resealed)
def reseal(context: Context, request: Request, name: Annotated[Word, Path()], key: Key = None) -> Response:
    """Have a conductor of each of its groups seal its properties, and the machine secrets of the group, again: to the
    newest key that it holds."""

    def work() -> tuple[int, Json]:
        done = sealing.reseal(context, name)
        return 200, {"name": name, "key": next(iter(done.sealed_to.values()), ""), **asdict(done)}

    return run_once(context, request, key, None, work)


@router.post("/{name}/repin", response_model=CloudDetail)
def repin(
    context: Context, request: Request, name: Annotated[Word, Path()], body: PinBody, key: Key = None
) -> Response:
    """Everything of ours in this cloud was moved to another account and kept its ids."""

    def work() -> tuple[int, Json]:
        pinned_clouds.repin(context.ledger, name, body.identity, caller.current().identity)
        return 200, _show(context, name)

    return run_once(context, request, key, body.model_dump(), work)


@router.post("/{name}/accept", response_model=Ended)
def accept(context: Context, request: Request, name: Annotated[Word, Path()], key: Key = None) -> Response:
    """Take the state of the cloud as it is: its alarms end, and lost nodes may be made anew."""

    def work() -> tuple[int, Json]:
        return 200, {"name": name, "ended": pinned_clouds.accept(context.ledger, name, caller.current().identity)}

    return run_once(context, request, key, None, work)


@router.post("/{name}/grant", status_code=202, response_model=Accepted)
def grant(
    context: Context, request: Request, name: Annotated[Word, Path()], body: GrantBody, key: Key = None
) -> Response:
    """Create or renew the driver's role in the cloud and give it to a user, with the cloud's configured credentials."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.grant(context, name, body.user, body.groups)}

    return run_once(context, request, key, body.model_dump(), work)


@router.post("/{name}/prove", status_code=202, response_model=Accepted)
def prove(context: Context, request: Request, name: Annotated[Word, Path()], key: Key = None) -> Response:
    """The second part of a deep check: try what the cloud promises on the deployment `deep-check-NAME`, which was made
    for nothing else. Each promise is an event `proof.ok`, `proof.failed` or `proof.impossible` of the task."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.prove(context, name)}

    return run_once(context, request, key, None, work)


def _show_with_etag(context: AppContext, name: str, response: Response) -> Json:
    with context.ledger.read() as tx:
        config = current_config(tx)
    response.headers["ETag"] = tag(config.id if config else 0)
    return _show(context, name)


def _show(context: AppContext, name: str) -> Json:
    with context.ledger.read() as tx:
        cloud = clouds.one(tx, name)
    said = cloud["facts"].get("check", {}).get("data") or {}
    return {**cloud, "capabilities": Capabilities.of_published(said).wire() if "capabilities" in said else None}
