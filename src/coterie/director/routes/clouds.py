"""Clouds: what is configured, what each can do, and what it last said about itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from coterie.director import questions, resealing
from coterie.director.office import Here
from coterie.director.reply import PROBLEMS, Json, Listing, Part, Resource, Word, listing
from coterie.ledger.views import clouds

router = APIRouter(tags=["clouds"], prefix="/v1/clouds", responses=PROBLEMS)


class Fact(Resource):
    at: str
    data: Any
    error: dict[str, Any] | None


class Cloud(Resource):
    name: str
    driver: str
    conductor_group: str
    properties: dict[str, Any]
    nodes: int


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


@router.get("/{name}", response_model=CloudDetail)
def show(office: Here, name: Annotated[Word, Path()]) -> Json:
    """With its capabilities and the latest facts, each dated."""
    with office.ledger.read() as tx:
        return _with_capabilities(clouds.one(tx, name))


@router.post("/{name}/check", response_model=CloudDetail)
def check(office: Here, name: Annotated[Word, Path()]) -> Json:
    """Have a conductor ask the cloud now: credentials, privileges, quotas, hosts."""
    questions.check_cloud(office, name)
    with office.ledger.read() as tx:
        return _with_capabilities(clouds.one(tx, name))


@router.post("/{name}/reseal", response_model=Resealed)
def reseal(office: Here, name: Annotated[Word, Path()]) -> Json:
    """Have a conductor of the cloud seal its properties anew, to the newest key that it holds."""
    return {"name": name, "key": resealing.reseal(office, name)}


def _with_capabilities(cloud: Json) -> Json:
    said = cloud["facts"].get("check", {}).get("data") or {}
    return {**cloud, "capabilities": said.get("capabilities")}
