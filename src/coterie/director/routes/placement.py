"""Placement: where every node is, what was promised, and whether it holds."""

from __future__ import annotations

from coterie.director import wishes
from coterie.director.office import Here
from coterie.director.reply import Json, Resource, Word
from coterie.director.routes.noun import noun

router = noun("placement", "/v1/placement")


class Placement(Resource):
    pass


@router.get("", response_model=Placement)
def audit(office: Here, deployment: Word | None = None) -> Json:
    """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take down."""
    return wishes.audit(office, deployment)
