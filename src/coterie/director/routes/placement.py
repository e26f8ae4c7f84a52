"""Placement: the host of every node, the promises of server groups, and whether they hold."""

from __future__ import annotations

from pydantic import Field

from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource, Word
from coterie.director.routes.noun import noun
from coterie.director.services import deployments

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


@router.get("", response_model=Placement)
def audit(context: Context, deployment: Word | None = None) -> Json:
    """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take down."""
    return deployments.audit(context, deployment)
