"""Conductors: the processes that run the work, with group, drivers and last heartbeat."""

from __future__ import annotations

from coterie.director.context import Context
from coterie.director.http.reply import Json, Listing, Part, Resource, listing
from coterie.director.middleware.api_version import SINCE_GROUPS
from coterie.director.routes.noun import noun
from coterie.ledger.views import conductor_groups, conductors

router = noun("conductors", "/v1/conductors")


class Conductor(Resource):
    name: str
    conductor_group: str | None = None
    drivers: list[str]
    release: str
    speaks: str | None
    ring: str
    weight: float
    draining: bool
    lease_s: float
    running: int
    silent_s: float
    started_at: str
    heartbeat: str


class ConductorGroup(Resource):
    name: str
    conductors: list[str]
    stand_ins: list[str]
    drivers: list[str]
    clouds: list[str]
    nodes: int
    orphans: int


@router.get("", response_model=Listing[Conductor])
def index(context: Context, part: Part) -> Json:
    with context.ledger.read() as tx:
        return listing(conductors.page(tx, part))


@router.get("/groups", response_model=Listing[ConductorGroup], dependencies=[SINCE_GROUPS])
def groups(context: Context) -> Json:
    """Every group that a conductor, a cloud or a node names: its live members, and the nodes that none serves."""
    with context.ledger.read() as tx:
        return {"items": conductor_groups.every(tx), "next": None}
