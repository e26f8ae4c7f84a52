"""Liveness, readiness, and metrics (Prometheus text)."""

from __future__ import annotations

from fastapi.responses import PlainTextResponse

from coterie.director.context import Context
from coterie.director.routes.noun import noun
from coterie.director.services import metrics
from coterie.errors import Unreachable
from coterie.ledger.rows import identity

router = noun("health")


@router.get("/livez", response_class=PlainTextResponse)
async def livez() -> str:
    """The process answers. Needs no token."""
    return "ok\n"


@router.get("/readyz", response_class=PlainTextResponse)
def readyz(context: Context) -> str:
    """The ledger answers, and the process is not ending."""
    if context.ending:
        raise Unreachable("this Director is ending", remedy="try again in a moment")
    with context.ledger.read() as tx:
        identity.director(tx)
    return "ok\n"


@router.get("/metrics", response_class=PlainTextResponse)
def show_metrics(context: Context) -> PlainTextResponse:
    with context.ledger.read() as tx:
        return PlainTextResponse(metrics.text(tx, context.ring_moves), media_type="text/plain; version=0.0.4")
