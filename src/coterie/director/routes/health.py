"""Liveness, readiness, and metrics (Prometheus text)."""

from __future__ import annotations

from fastapi.responses import PlainTextResponse

from coterie.director.context import Context
from coterie.director.routes.noun import noun
from coterie.director.services import metrics

router = noun("health")


@router.get("/livez", response_class=PlainTextResponse)
async def livez() -> str:
    """The process answers. Needs no token."""
    return "ok\n"


@router.get("/readyz", response_class=PlainTextResponse, responses={503: {"content": {"text/plain": {}}}})
def readyz(context: Context) -> PlainTextResponse:
    """The ledger answers, and the process is not ending. Needs no token, and tells no more than that."""
    if not context.ending and context.readiness.check(context.ledger):
        return PlainTextResponse("ok\n")
    return PlainTextResponse("not ready\n", 503)


@router.get("/metrics", response_class=PlainTextResponse)
def show_metrics(context: Context) -> PlainTextResponse:
    with context.ledger.read() as tx:
        return PlainTextResponse(metrics.text(tx, context.ring_moves), media_type="text/plain; version=0.0.4")
