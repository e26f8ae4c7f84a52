"""The REST API, one noun per file: each route reads a view or calls a service, and decides nothing itself."""

from fastapi import APIRouter, FastAPI

from coterie.director.routes import (
    cleanups,
    cloud_config,
    clouds,
    conductors,
    console,
    deployments,
    disks,
    events,
    explain,
    groups,
    health,
    info,
    keys,
    looks,
    nodes,
    objects,
    placement,
    plans,
    recoveries,
    ring,
    stemcells,
    targets,
    tasks,
    tokens,
)

_NOUNS: tuple[APIRouter, ...] = (
    health.router,
    info.router,
    cloud_config.router,
    clouds.router,
    plans.router,
    recoveries.router,
    deployments.router,
    nodes.router,
    looks.router,
    groups.router,
    disks.router,
    stemcells.router,
    objects.router,
    tasks.router,
    events.router,
    conductors.router,
    ring.router,
    placement.router,
    targets.router,
    explain.router,
    cleanups.router,
    tokens.router,
    keys.router,
    console.router,
)


def mount(app: FastAPI) -> None:
    for router in _NOUNS:
        app.router.routes.extend(router.routes)
