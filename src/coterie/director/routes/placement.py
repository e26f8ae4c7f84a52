"""Placement: where every node is, what was promised, and whether it holds."""

from __future__ import annotations

from fastapi import APIRouter

from coterie.director import wishes
from coterie.director.office import Here
from coterie.director.reply import PROBLEMS, Json, Resource, Word

router = APIRouter(tags=["placement"], prefix="/v1/placement", responses=PROBLEMS)


class Placement(Resource):
    pass


@router.get("", response_model=Placement)
def audit(office: Here, deployment: Word | None = None) -> Json:
    """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take down."""
    return wishes.audit(office, deployment)
