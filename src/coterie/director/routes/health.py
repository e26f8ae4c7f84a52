"""Is it alive, is it ready, and how much of everything is there (Prometheus text)."""

from __future__ import annotations

from fastapi.responses import PlainTextResponse

from coterie.director.context import Here
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
def readyz(office: Here) -> str:
    """The ledger answers, and the process is not ending."""
    if office.ending:
        raise Unreachable("this Director is ending", remedy="try again in a moment")
    with office.ledger.read() as tx:
        identity.director(tx)
    return "ok\n"


@router.get("/metrics", response_class=PlainTextResponse)
def show_metrics(office: Here) -> PlainTextResponse:
    with office.ledger.read() as tx:
        return PlainTextResponse(metrics.text(tx, office.ring_moves), media_type="text/plain; version=0.0.4")
