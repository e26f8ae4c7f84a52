"""Gives requests for pages to the console, and all others to the API. Pages get their security headers here."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.director.context import AppContext
from coterie.director.middleware.api_version import use_newest

if TYPE_CHECKING:
    from starlette.applications import Starlette

API_APP = "coterie.api"  # in the scope of a page: the application whose routes it calls
_API = ("/v1", "/livez", "/readyz", "/metrics", "/openapi.json")
_HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class ConsoleMiddleware:
    """`app`: the API, behind its check of callers. `/` and all that a browser asks for as a page is the console's."""

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_page(scope):
            await self._app(scope, receive, send)
            return
        with use_newest(self._context):
            await self._pages({**scope, API_APP: scope["app"]}, receive, _add_headers(send))

    @cached_property
    def _pages(self) -> Starlette:
        """Made by the first request: a Director without users of the console does not load it."""
        from coterie.director.console.routes import build

        return build(self._context, self._app)

    def _is_page(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if any(path == one or path.startswith(f"{one}/") for one in _API):
            return False
        if "text/html" in Headers(scope=scope).get("accept", ""):
            return True
        from coterie.director.console.routes import is_route

        return is_route(scope)


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers
