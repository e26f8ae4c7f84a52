"""Conductors: who runs the work, for which group and drivers, and when each was last heard of."""

from __future__ import annotations

from coterie.director.context import Here
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
def index(office: Here, part: Part) -> Json:
    with office.ledger.read() as tx:
        return listing(conductors.page(tx, part))


@router.get("/groups", response_model=Listing[ConductorGroup], dependencies=[SINCE_GROUPS])
def groups(office: Here) -> Json:
    """Every group that somebody names: its live members, and the nodes that nobody could work on."""
    with office.ledger.read() as tx:
        return {"items": conductor_groups.every(tx), "next": None}
