"""The ASGI application: routes, problems, the gate."""

from __future__ import annotations

from fastapi import FastAPI

from coterie import __version__
from coterie.director import routes
from coterie.director.access.gate import Gate
from coterie.director.context import Office
from coterie.director.http import problem
from coterie.director.http.reply import SafeJson
from coterie.director.middleware.api_version import Spoken
from coterie.director.middleware.request_limits import Guard
from coterie.director.middleware.tracing import Traced


def build(office: Office) -> FastAPI:
    # No pages that load scripts from elsewhere: the console is ours, the document is /openapi.json.
    app = FastAPI(
        title="Coterie Director",
        version=__version__,
        description="Deploys groups of machines on any IaaS, keeps each where it was promised, leaves nothing behind.",
        docs_url=None,
        redoc_url=None,
        default_response_class=SafeJson,
        redirect_slashes=False,
    )
    app.state.office = office
    problem.install(app)
    routes.mount(app)
    app.add_middleware(Gate, office=office)
    app.add_middleware(Guard, office=office)
    app.add_middleware(Traced)
    app.add_middleware(Spoken)  # outermost: every answer is signed, refusals too
    return app
