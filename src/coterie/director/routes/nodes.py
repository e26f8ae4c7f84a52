"""Nodes: the machines under management."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from coterie.director import wishes
from coterie.director.office import Here
from coterie.director.reply import PROBLEMS, Json, Listing, Part, Resource, Word, listing
from coterie.ledger.views import nodes

router = APIRouter(tags=["nodes"], prefix="/v1/nodes", responses=PROBLEMS)


class Node(Resource):
    uuid: str
    name: str
    deployment: str
    instance_group: str
    index: int
    az: str
    cloud: str
    state: str
    vm_cid: str | None
    host: str | None
    addresses: dict[str, Any]
    server_group: str | None
    server_group_cid: str | None
    conductor_group: str | None
    runs_in_group: str
    problem: dict[str, Any] | None
    created_at: str
    updated_at: str


class NodeChange(BaseModel):
    """What of a node can be set. A group of null is its cloud's."""

    model_config = ConfigDict(extra="forbid")
    conductor_group: Annotated[str, Field(max_length=255)] | None


class NodeDetail(Node):
    spec: dict[str, Any] | None
    objects: list[dict[str, Any]]


@router.get("", response_model=Listing[Node])
def index(
    office: Here,
    part: Part,
    deployment: Word | None = None,
    instance_group: Word | None = None,
    az: Word | None = None,
    state: Word | None = None,
    cloud: Word | None = None,
) -> Json:
    with office.ledger.read() as tx:
        found = nodes.page(
            tx, part, deployment=deployment, instance_group=instance_group, az=az, state=state, cloud=cloud
        )
    return listing(found)


@router.get("/{which:path}", response_model=NodeDetail)
def show(office: Here, which: Annotated[Word, Path(description="uuid, or deployment/group/index")]) -> Json:
    with office.ledger.read() as tx:
        return nodes.one(tx, which)


@router.patch("/{which:path}", response_model=NodeDetail)
def change(office: Here, which: Annotated[Word, Path()], wish: NodeChange) -> Json:
    """Move a node to another conductor group; refused where no live conductor has its driver."""
    with office.ledger.read() as tx:
        uuid = nodes.one(tx, which)["uuid"]
    wishes.move_node(office, uuid, wish.conductor_group)
    with office.ledger.read() as tx:
        return nodes.one(tx, uuid)
