"""Targets for Prometheus (`http_sd_configs`): the addresses of deployed nodes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel

from coterie.director.context import Context
from coterie.director.http.reply import Word
from coterie.director.routes.noun import noun
from coterie.director.services.targets import list_targets

router = noun("targets", "/v1/targets")


class Target(BaseModel):
    targets: list[str]
    labels: dict[str, str]


@router.get("", response_model=list[Target])
def index(
    context: Context,
    port: Annotated[int, Query(ge=1, le=65_535, description="the port of what shall be scraped")] = 9100,
    deployment: Word | None = None,
    network: Annotated[Word | None, Query(description="whose addresses; default: the first of each node")] = None,
) -> list[dict[str, Any]]:
    """All nodes with an address, with `__meta_coterie_…` labels. Not paged: Prometheus reads one reply."""
    with context.ledger.read() as tx:
        return list_targets(tx, port, deployment, network)
