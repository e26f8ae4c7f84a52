"""A span around every request, where traces are configured; it continues the caller's trace."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.telemetry import trace


class TracingMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not trace.on():
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        about = {"http.request.method": method, "url.path": path}
        with trace.span(f"{method} {path}", about, headers=Headers(scope=scope)) as attributes:

            async def send_noting_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    attributes["http.response.status_code"] = message["status"]
                await send(message)

            await self._app(scope, receive, send_noting_status)
