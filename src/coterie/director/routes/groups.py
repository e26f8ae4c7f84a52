"""Server groups: the row, its members, and what the cloud holds under the CID."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response

from coterie.director.context import Context
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Accepted, Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import cloud_questions, deployments
from coterie.director.services.states import GroupState
from coterie.ledger.views import groups

router = noun("groups", "/v1/groups")


class Group(Resource):
    intent: str
    cid: str | None
    name: str
    deployment: str
    cloud: str
    policy: str | None
    state: str
    adopted: bool
    drift: list[str]
    remedy: str
    size: int
    instance_groups: list[str]
    created_at: str
    ended_at: str | None


class Live(Resource):
    """The cloud's answer about it, and when."""

    at: str | None
    data: dict[str, Any] | None
    error: dict[str, Any] | None


class GroupDetail(Group):
    members: list[dict[str, Any]]
    live: Live | None


@router.get("", response_model=Listing[Group])
def index(
    context: Context,
    part: Part,
    deployment: Word | None = None,
    cloud: Word | None = None,
    name: Word | None = None,
    state: GroupState | None = None,
) -> Json:
    """All that may be in a cloud; `state=gone` for deleted ones. `drifted`: not as created, see `drift`."""
    with context.ledger.read() as tx:
        found = groups.page(tx, part, deployment=deployment, cloud=cloud, name=name, state=state)
        return listing(require_names(tx, found, deployment=deployment, cloud=cloud))


@router.get("/{cid}", response_model=GroupDetail)
def show(context: Context, cid: Annotated[Word, Path(description="CID or intent")]) -> Json:
    """With its members, and a fresh look through a conductor of its cloud."""
    with context.ledger.read() as tx:
        found = groups.one(tx, cid)
    live = cloud_questions.inspect_group(context, found)
    return {**found, "remedy": cloud_questions.advice(context, found, live), "live": live}


@router.post("/{cid}/repair", status_code=202, response_model=Accepted)
def repair(
    context: Context, request: Request, cid: Annotated[Word, Path(description="CID or intent")], key: Key = None
) -> Response:
    """Have the cloud create again what it lost of the group, for the VMs that belong to it."""

    def work() -> tuple[int, Json]:
        with context.ledger.read() as tx:
            intent = groups.one(tx, cid)["intent"]
        return 202, {"task_id": deployments.repair_group(context, intent)}

    return run_once(context, request, key, None, work)
