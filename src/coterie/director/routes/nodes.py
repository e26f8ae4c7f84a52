"""Nodes: the machines under management, those of deployments and enrolled ones."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Context
from coterie.director.http.filters import require_names
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
from coterie.director.services import deployments
from coterie.director.services.states import NodeState
from coterie.ledger.store import Tx
from coterie.ledger.views import nodes
from coterie.requests.enroll import Enrollment
from coterie.ring.members import group_name

router = noun("nodes", "/v1/nodes")
Which = Annotated[
    Word, Path(description="uuid, deployment/group/index (or group/index, if unique), or the name of an enrolled node")
]


class Node(Resource):
    uuid: str
    name: str
    deployment: str | None
    instance_group: str | None
    index: int | None
    az: str | None
    cloud: str
    state: str
    vm_cid: str | None
    host: str | None
    addresses: dict[str, Any]
    server_group: str | None
    server_group_cid: str | None
    conductor_group: str | None = None
    runs_in_group: str = ""
    enrolled: bool = False
    problem: dict[str, Any] | None
    created_at: str
    updated_at: str


class NodeChange(BaseModel):
    """What of a node can be set. A group of null is its cloud's."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: Annotated[str, Field(max_length=255)] | None


class NewNode(BaseModel):
    """A machine that exists, to be managed from now on. A name of null is made of the CID."""

    model_config = ConfigDict(extra="forbid")
    cloud: Word
    cid: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
    name: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    conductor_group: Annotated[str, Field(max_length=255)] | None = None


class NodeDetail(Node):
    spec: dict[str, Any] | None
    objects: list[dict[str, Any]]


@router.get("", response_model=Listing[Node])
def index(
    context: Context,
    part: Part,
    deployment: Word | None = None,
    instance_group: Word | None = None,
    az: Word | None = None,
    state: NodeState | None = None,
    cloud: Word | None = None,
    enrolled: bool | None = None,
    conductor_group: Annotated[str, Query(max_length=255)] | None = None,
) -> Json:
    """`conductor_group`: the group that the work of a node runs in, its own or its cloud's; an empty one is blank."""
    with context.ledger.read() as tx:
        found = nodes.page(
            tx,
            part,
            conductor_group=None if conductor_group is None else group_name(conductor_group),
            deployment=deployment,
            instance_group=instance_group,
            az=az,
            state=state,
            cloud=cloud,
            enrolled=enrolled,
        )
        names = {"deployment": deployment, "instance_group": instance_group, "az": az, "cloud": cloud}
        return listing(require_names(tx, found, **names))


@router.post("", status_code=201, response_model=NodeDetail)
def enroll(context: Context, request: Request, body: NewNode, key: Key = None) -> Response:
    """Enroll an existing machine: it is shown and monitored, never recreated and never cleaned up."""
    refuse_newer_fields(body.model_dump(exclude_unset=True))

    def work() -> tuple[int, Json]:
        uuid = deployments.enroll(context, Enrollment(body.cloud, body.cid, body.name, body.conductor_group))
        with context.ledger.read() as tx:
            return 201, nodes.one(tx, uuid)

    return run_once(context, request, key, body.model_dump(), work)


@router.get("/{which:path}", response_model=NodeDetail)
def show(context: Context, which: Which, response: Response) -> Json:
    with context.ledger.read() as tx:
        found = nodes.one(tx, which)
    response.headers["ETag"] = tag(_state(found))
    return found


@router.patch("/{which:path}", response_model=NodeDetail)
def change(context: Context, which: Which, body: NodeChange, response: Response, if_match: IfMatch = None) -> Json:
    """Move a node to another conductor group; refused where no live conductor has its driver."""
    refuse_newer_fields(body.model_dump(exclude_unset=True))
    with context.ledger.read() as tx:
        uuid = nodes.one(tx, which)["uuid"]

    def agree(tx: Tx) -> None:
        require_match(if_match, _state(nodes.one(tx, uuid)), f"node {which}")

    deployments.move_node(context, uuid, body.conductor_group, agree)
    return show(context, uuid, response)


@router.delete("/{which:path}", status_code=204, responses={202: {"model": Accepted}})
def delete(
    context: Context,
    request: Request,
    which: Which,
    destroy: Annotated[bool, Query(description="delete the machine too")] = False,
    key: Key = None,
) -> Response:
    """Forget an enrolled node; its machine stays, unless `destroy` is set (then 202 and a task)."""

    def work() -> tuple[int, Json]:
        with context.ledger.read() as tx:
            uuid = nodes.one(tx, which)["uuid"]
        if destroy:
            return 202, {"task_id": deployments.destroy_node(context, uuid)}
        deployments.forget_node(context, uuid)
        return 204, {}

    return run_once(context, request, key, None, work)


def _state(node: Json) -> str:
    seen = [node[name] for name in ("uuid", "state", "vm_cid", "conductor_group", "runs_in_group", "updated_at")]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]
