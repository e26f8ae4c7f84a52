"""Deployments: the wishes themselves. Changing one starts a task."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Here, Office
from coterie.director.http import document
from coterie.director.http.idempotency import Key, once
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
from coterie.director.routes.noun import noun
from coterie.director.services import cleanups
from coterie.director.services import deployments as wishes
from coterie.director.services.request_models import DeployWish
from coterie.errors import NotFound
from coterie.ledger.rows import ownerships
from coterie.ledger.views import deployments

router = noun("deployments", "/v1/deployments")
Name = Annotated[Word, Path(description="name of the deployment")]


class Deployment(Resource):
    name: str
    serial: int
    resurrection: bool
    nodes: dict[str, int]
    task: int | None
    team: str | None
    created_at: str
    updated_at: str


class DeploymentChange(BaseModel):
    """What of a deployment can be set without deploying it. A team of null: nobody's."""

    model_config = ConfigDict(extra="forbid")
    team: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$")] | None


@router.get("", response_model=Listing[Deployment])
def index(office: Here, part: Part) -> Json:
    with office.ledger.read() as tx:
        return listing(deployments.page(tx, part))


@router.get("/{name}", response_model=Deployment)
def show(office: Here, name: Name, response: Response) -> Json:
    with office.ledger.read() as tx:
        found = deployments.one(tx, name)
    response.headers["ETag"] = tag(_state(found))
    return found


@router.get("/{name}/manifest", response_class=PlainTextResponse)
def manifest(office: Here, name: Name) -> Response:
    """The manifest as it was given, secret values hidden."""
    with office.ledger.read() as tx:
        text, state = deployments.manifest(tx, name), _state(deployments.one(tx, name))
    return PlainTextResponse(document.shown(text), media_type="text/yaml", headers={"ETag": tag(state)})


@router.put("/{name}", status_code=202, response_model=Accepted)
def deploy(
    office: Here, request: Request, name: Name, wish: DeployWish, key: Key = None, if_match: IfMatch = None
) -> Response:
    """Make it so. With `plan`, only if planning now gives the very plan that was confirmed (else 412)."""

    def work() -> tuple[int, Json]:
        require_match(if_match, _present(office, name), f"deployment {name}")
        document.refuse_redacted(wish.manifest, wish.manifest_file)
        return 202, {"task_id": wishes.deploy(office, name, wish)}

    return once(office, request, key, wish.model_dump(), work)


@router.patch("/{name}", response_model=Deployment)
def change(office: Here, name: Name, wanted: DeploymentChange, response: Response, if_match: IfMatch = None) -> Json:
    """Give it to a team, whose members alone (and those who are not limited to teams) then see it."""
    with office.ledger.write() as tx:
        require_match(if_match, _state(deployments.one(tx, name)), f"deployment {name}")
        ownerships.assign(tx, name, wanted.team)
        found = deployments.one(tx, name)
    response.headers["ETag"] = tag(_state(found))
    return found


@router.delete("/{name}", status_code=202, response_model=Accepted)
def delete(
    office: Here,
    request: Request,
    name: Name,
    delete_disks: Annotated[bool, Query(description="delete its persistent disks, kept ones too")] = False,
    plan: Annotated[str | None, Query(max_length=255, description="id of the confirmed plan")] = None,
    key: Key = None,
    if_match: IfMatch = None,
) -> Response:
    """Delete its VMs and groups; disks are kept for the undo window unless told otherwise."""

    def work() -> tuple[int, Json]:
        require_match(if_match, _present(office, name), f"deployment {name}")
        return 202, {"task_id": wishes.delete(office, name, delete_disks, plan)}

    return once(office, request, key, None, work)


@router.post("/{name}/abandon", status_code=204)
def abandon(office: Here, request: Request, name: Name, key: Key = None) -> Response:
    """Give it up without calling a cloud: its work ends, and what it has in clouds is left to cleanup."""

    def work() -> tuple[int, Json]:
        cleanups.abandon(office, name)
        return 204, {}

    return once(office, request, key, None, work)


def _present(office: Office, name: str) -> str:
    try:
        with office.ledger.read() as tx:
            return _state(deployments.one(tx, name))
    except NotFound:
        return "0"


def _state(deployment: Json) -> str:
    """What its tag says: the wish, and whose it is."""
    team = deployment["team"]
    return str(deployment["serial"]) if team is None else f"{deployment['serial']}-{team}"
