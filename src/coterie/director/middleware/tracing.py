"""A span around every request, where traces are configured; a caller's own trace is taken up."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.telemetry import trace


class Traced:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not trace.on():
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        about = {"http.request.method": method, "url.path": path}
        with trace.span(f"{method} {path}", about, headers=Headers(scope=scope)) as said:

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    said["http.response.status_code"] = message["status"]
                await send(message)

            await self._app(scope, receive, noting)
