"""The ASGI application: routes, problems, middleware."""

from __future__ import annotations

from fastapi import FastAPI

from coterie import __version__
from coterie.director import routes
from coterie.director.access.middleware import AccessMiddleware
from coterie.director.console.middleware import ConsoleMiddleware
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.director.http.reply import SafeJson
from coterie.director.middleware.api_version import ApiVersionMiddleware
from coterie.director.middleware.request_limits import RequestLimitsMiddleware
from coterie.director.middleware.tracing import TracingMiddleware


def build(context: AppContext) -> FastAPI:
    # No documentation pages: they would load scripts from other hosts. The document is /openapi.json.
    app = FastAPI(
        title="Coterie Director",
        version=__version__,
        description="Deploys groups of machines on any IaaS, keeps their placement promises, leaves nothing behind.",
        docs_url=None,
        redoc_url=None,
        default_response_class=SafeJson,
        redirect_slashes=False,
    )
    app.state.context = context
    problem.install(app)
    routes.mount(app)
    app.add_middleware(AccessMiddleware, context=context)
    app.add_middleware(ConsoleMiddleware, context=context)  # its pages call the API through the access middleware
    app.add_middleware(RequestLimitsMiddleware, context=context)
    app.add_middleware(TracingMiddleware)
    app.add_middleware(ApiVersionMiddleware, context=context)  # outermost: every answer gets its headers, refusals too
    return app
