"""Conductors: who runs the work, for which group and drivers, and when each was last heard of."""

from __future__ import annotations

from fastapi import APIRouter

from coterie.director.office import Here
from coterie.director.reply import PROBLEMS, Json, Listing, Part, Resource, listing
from coterie.ledger.views import conductors

router = APIRouter(tags=["conductors"], prefix="/v1/conductors", responses=PROBLEMS)


class Conductor(Resource):
    name: str
    conductor_group: str | None
    drivers: list[str]
    release: str
    running: int
    silent_s: float
    started_at: str
    heartbeat: str


@router.get("", response_model=Listing[Conductor])
def index(office: Here, part: Part) -> Json:
    with office.ledger.read() as tx:
        return listing(conductors.page(tx, part))
