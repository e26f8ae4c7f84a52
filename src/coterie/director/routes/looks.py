"""Looks now: which VMs are there, and which nodes are healthy."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from coterie.director.context import Context
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Accepted, Json, Word
from coterie.director.routes.noun import noun
from coterie.director.services import deployments

router = noun("looks", "/v1/looks")


class LookBody(BaseModel):
    """What to look at: the nodes of a deployment, one node, or, with neither, all clouds and their nodes."""

    model_config = ConfigDict(extra="forbid")
    deployment: Word | None = None
    node: Word | None = None


@router.post("", status_code=202, response_model=Accepted)
def look(context: Context, request: Request, body: LookBody, key: Key = None) -> Response:
    """Look at once, as the periodic look does: it changes no VM."""

    def work() -> tuple[int, Json]:
        return 202, {"task_id": deployments.look(context, body.deployment, body.node)}

    return run_once(context, request, key, body.model_dump(), work)
