"""Placement: the host of every node, the promises of server groups, and whether they hold."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, Field

from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource, SafeJson, Word
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.placement_map import placement_map

router = noun("placement", "/v1/placement")


class PlacedNode(Resource):
    deployment: str
    node: str
    state: str
    cloud: str
    az: str | None
    rack: str | None
    host: str | None
    vm_cid: str | None


class Worst(Resource):
    """The failure that takes down most nodes."""

    name: str
    nodes: list[str]


class PlacedGroup(Resource):
    deployment: str
    name: str
    cloud: str
    cid: str | None
    state: str
    policy: str | None
    promise: str
    holds: bool | None = Field(description="null: it cannot be verified")
    why: str
    remedy: str
    mend: list[str] = Field(description="nodes that a recreate should place anew")
    outside: list[str] = Field(default=[], description="nodes that are not in the cloud's group yet")
    down: dict[str, str]
    hosts: dict[str, list[str]]
    domains: dict[str, list[str]] = Field(default={})
    domain_word: str | None = None
    update_domains: dict[str, list[str]] = Field(
        default={}, description="which nodes go down together when the cloud maintains its hosts, where it shows that"
    )
    worst_host: Worst | None
    worst_rack: Worst | None
    worst_domain: Worst | None = None
    notes: list[str]
    unfinished_task: int | None = None


class Placement(Resource):
    nodes: list[PlacedNode]
    groups: list[PlacedGroup]


class MapRack(Resource):
    """`groups`: nodes of each server group by its intent; those of none under an empty one."""

    key: str = Field(description="CLOUD/AZ/RACK")
    cloud: str
    az: str | None
    rack: str = Field(description="`unknown`: of nodes whose host the cloud does not place")
    hosts: int
    nodes: int
    unhealthy: int
    down: int = Field(default=0, description="of the unhealthy ones: those whose VM is dead or missing")
    groups: dict[str, int]


class MapNode(Resource):
    deployment: str | None
    node: str
    state: str
    cloud: str
    az: str | None
    rack: str
    host: str | None
    group: str | None = Field(description="intent of its server group")


class MapHost(Resource):
    cloud: str
    az: str | None
    rack: str
    name: str


class MapGroup(Resource):
    intent: str
    deployment: str
    name: str
    cloud: str
    cid: str | None
    policy: str | None
    state: str
    remedy: str
    size: int
    promise: str
    holds: bool | None
    why: str
    down: dict[str, str] = Field(default={}, description="nodes whose VM is dead or missing")
    worst_host: Worst | None
    worst_rack: Worst | None


class PlacementMap(BaseModel):
    racks: list[MapRack]
    nodes: list[MapNode]
    hosts: list[MapHost]
    groups: list[MapGroup]


@router.get("/map", response_model=PlacementMap)
def show_map(
    context: Context,
    deployment: Word | None = None,
    rack: Annotated[str | None, Query(max_length=1000, description="only this one, by its `key`")] = None,
    most: Annotated[
        int | None, Query(ge=0, description="hosts; where there are more, hosts and nodes are left out")
    ] = None,
) -> Response:
    """All racks, hosts, nodes and groups as the ledger knows them: of the last look and check, without asking a
    cloud."""
    return SafeJson(placement_map(context, deployment, rack, most))


@router.get("", response_model=Placement)
def audit(context: Context, deployment: Word | None = None) -> Json:
    """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take down."""
    return deployments.audit(context, deployment)
