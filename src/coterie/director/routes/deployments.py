"""Deployments. Changing one starts a task."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import AppContext, Context
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.problem import AnsweredProblem
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
from coterie.director.services import cleanups, deployments
from coterie.director.services.deployments import ActionBody, DeployBody
from coterie.director.services.large_plans import deploy_apart, hold_slot, is_apart
from coterie.errors import NotFound
from coterie.ledger.rows import ownerships
from coterie.ledger.views.deployments import manifest as read_manifest
from coterie.ledger.views.deployments import manifest_page, old_manifest, one, page
from coterie.redact import hide_yaml, refuse_redacted

router = noun("deployments", "/v1/deployments")
Name = Annotated[Word, Path(description="name of the deployment")]


_YAML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/yaml": {"schema": {"type": "object"}}}}}


class Deployment(Resource):
    name: str
    serial: int
    resurrection: bool
    nodes: dict[str, int]
    task: int | None
    unfinished_task: int | None = None
    team: str | None
    created_at: str
    updated_at: str


class AcceptedManifest(Resource):
    id: int
    requested_by: str | None
    created_at: str


class OldManifest(AcceptedManifest):
    body: str


class DeploymentChange(BaseModel):
    """What of a deployment can be set without deploying it. A team of null: no team."""

    model_config = ConfigDict(extra="forbid")
    team: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$")] | None


@router.get("", response_model=Listing[Deployment])
def index(context: Context, part: Part) -> Json:
    with context.ledger.read() as tx:
        return listing(page(tx, part))


@router.get("/{name}", response_model=Deployment)
def show(context: Context, name: Name, response: Response) -> Json:
    with context.ledger.read() as tx:
        found = one(tx, name)
    response.headers["ETag"] = tag(_state(found))
    return found


@router.get("/{name}/manifest", response_class=Response, responses=_YAML, dependencies=[Depends(hold_slot)])
def manifest(context: Context, name: Name) -> Response:
    """The manifest as it was given, secret values hidden."""
    with context.ledger.read() as tx:
        text, state = read_manifest(tx, name), _state(one(tx, name))
    return PlainTextResponse(hide_yaml(text), media_type="text/yaml", headers={"ETag": tag(state)})


@router.get("/{name}/manifests", response_model=Listing[AcceptedManifest])
def manifests(context: Context, name: Name, part: Part) -> Json:
    """Manifests that were accepted, newest first; the newest 50 are kept."""
    with context.ledger.read() as tx:
        return listing(require_names(tx, manifest_page(tx, name, part), deployment=name))


@router.get("/{name}/manifests/{number}", response_model=OldManifest)
def manifest_version(context: Context, name: Name, number: Annotated[int, Path(ge=1, le=2**53)]) -> Json:
    """One of them with its text, secret values hidden."""
    with context.ledger.read() as tx:
        found = old_manifest(tx, name, number)
    return {**found, "body": hide_yaml(found["body"])}


@router.put("/{name}", status_code=202, response_model=Accepted, dependencies=[Depends(hold_slot)])
def deploy(
    context: Context, request: Request, name: Name, body: DeployBody, key: Key = None, if_match: IfMatch = None
) -> Response:
    """Deploy the manifest. With `plan`, only if planning now gives the plan that was confirmed (else 412)."""

    def work() -> tuple[int, Json]:
        require_match(if_match, _present(context, name), f"deployment {name}")
        refuse_redacted(body.manifest, body.manifest_file)
        if is_apart(context, body):
            return 202, {"task_id": _task_of(deploy_apart(context, request, name, body))}
        return 202, {"task_id": deployments.deploy(context, name, body)}

    return run_once(context, request, key, body.model_dump(), work)


def _task_of(answer: Json) -> int:
    if "problem" in answer:
        raise AnsweredProblem(answer["problem"])
    return int(answer["task_id"])


@router.patch("/{name}", response_model=Deployment)
def change(context: Context, name: Name, body: DeploymentChange, response: Response, if_match: IfMatch = None) -> Json:
    """Assign it to a team: then its members see it, and callers that are not limited to teams."""
    with context.ledger.write() as tx:
        require_match(if_match, _state(one(tx, name)), f"deployment {name}")
        ownerships.assign(tx, name, body.team)
        found = one(tx, name)
    response.headers["ETag"] = tag(_state(found))
    return found


@router.delete("/{name}", status_code=202, response_model=Accepted)
def delete(
    context: Context,
    request: Request,
    name: Name,
    delete_disks: Annotated[bool, Query(description="delete its persistent disks, kept ones too")] = False,
    plan: Annotated[str | None, Query(max_length=255, description="id of the confirmed plan")] = None,
    key: Key = None,
    if_match: IfMatch = None,
) -> Response:
    """Delete its VMs and groups; disks are kept for the undo window unless `delete_disks` is set."""

    def work() -> tuple[int, Json]:
        require_match(if_match, _present(context, name), f"deployment {name}")
        return 202, {"task_id": deployments.delete(context, name, delete_disks, plan)}

    return run_once(context, request, key, None, work)


@router.post("/{name}/actions", status_code=202, response_model=Accepted)
def act(context: Context, request: Request, name: Name, body: ActionBody, key: Key = None) -> Response:
    """Recreate, restart, stop or start nodes, or give one a kept disk. With `plan`, only if planning now gives the plan
    that was confirmed (else 412)."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.act_on_nodes(context, name, body)}

    return run_once(context, request, key, body.model_dump(), work)


@router.post("/{name}/abandon", status_code=204)
def abandon(context: Context, request: Request, name: Name, key: Key = None) -> Response:
    """Abandon it without calling a cloud: its tasks end, and its objects in clouds are left to cleanup."""

    def work() -> tuple[int, Json]:
        cleanups.abandon(context, name)
        return 204, {}

    return run_once(context, request, key, None, work)


def _present(context: AppContext, name: str) -> str:
    try:
        with context.ledger.read() as tx:
            return _state(one(tx, name))
    except NotFound:
        return "0"


def _state(deployment: Json) -> str:
    """The value of its ETag: the serial number and the team."""
    team = deployment["team"]
    return str(deployment["serial"]) if team is None else f"{deployment['serial']}-{team}"
