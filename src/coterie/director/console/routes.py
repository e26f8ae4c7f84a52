"""All routes of the console."""

from __future__ import annotations

from functools import cache

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from coterie.director.console import login, render
from coterie.director.console.page import Handler, endpoint, failure, on_http_error
from coterie.director.console.pages import (
    access,
    cleanups,
    clouds,
    deployments,
    events,
    live,
    now,
    placement,
    plans,
    ring,
    tasks,
    wizard,
)
from coterie.director.context import AppContext

_PAGES: tuple[tuple[str, str, Handler], ...] = (
    *now.ROUTES,
    *placement.ROUTES,
    *deployments.ROUTES,
    *plans.ROUTES,
    *wizard.ROUTES,
    *tasks.ROUTES,
    *ring.ROUTES,
    *cleanups.ROUTES,
    *clouds.ROUTES,
    *events.ROUTES,
    *access.ROUTES,
    *live.ROUTES,
)
_OPEN = ("/login", "/login/link", "/login/oidc", "/login/oidc/callback", "/logout", "/assets/{name}")


def build(context: AppContext, app: ASGIApp) -> Starlette:
    """`app`: the API."""
    pages = [Route(path, endpoint(context, app, handle), methods=[method]) for method, path, handle in _PAGES]
    return Starlette(
        routes=[Route("/assets/{name}", _asset), *login.routes(app, context), *pages],
        exception_handlers={HTTPException: on_http_error},
    )


def is_route(scope: Scope) -> bool:
    """Whether the console has something at this path, whatever the method."""
    return any(route.matches(scope)[0] is not Match.NONE for route in _known())


@cache
def _known() -> tuple[Route, ...]:
    paths = [*_OPEN, *(path for _, path, _ in _PAGES)]
    return tuple(Route(path, failure, methods=["GET", "POST"]) for path in dict.fromkeys(paths))


async def _asset(request: Request) -> Response:
    found = render.asset(request.path_params["name"])
    if found is None:
        return failure(404, "there is no such file", "load the page again")
    body, kind = found
    return Response(body, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})
