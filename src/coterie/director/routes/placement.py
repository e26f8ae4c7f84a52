"""Placement: the host of every node, the promises of server groups, and whether they hold."""

from __future__ import annotations

from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource, Word
from coterie.director.routes.noun import noun
from coterie.director.services import deployments

router = noun("placement", "/v1/placement")


class Placement(Resource):
    pass


@router.get("", response_model=Placement)
def audit(context: Context, deployment: Word | None = None) -> Json:
    """Per server group: the promise, the hosts, whether it holds, what a host or rack failure would take down."""
    return deployments.audit(context, deployment)
