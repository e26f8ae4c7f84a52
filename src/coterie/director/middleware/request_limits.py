"""Limits the size of requests, and answers an unexpected exception with a problem."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie import __version__
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.errors import CoterieError

log = logging.getLogger(__name__)
LARGEST_BODY = 10 * 2**20
LARGEST_UPLOAD = 64 * 2**30


class RequestLimitsMiddleware:
    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._context.activity.begin()
        try:
            await self._answer(scope, receive, _Sender(send))
        finally:
            self._context.activity.end()

    async def _answer(self, scope: Scope, receive: Receive, send: _Sender) -> None:
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem.response(refusal, scope["path"])(scope, receive, send)
            return
        try:
            await self._app(scope, _limit_body(receive, _limit(scope)), send)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not send.started:
                await _internal_error(scope["path"])(scope, receive, send)

    def _refusal(self, scope: Scope) -> CoterieError | None:
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > _limit(scope):
            return _too_large(_limit(scope))
        return None


class _Sender:
    """Passes messages on, adds our version to the answer, and records whether the answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), (b"coterie-version", __version__.encode())]
        await self._send(message)


def _limit(scope: Scope) -> int:
    upload = scope["path"] == "/v1/stemcells" and scope["method"] == "POST"
    return LARGEST_UPLOAD if upload else LARGEST_BODY


def _limit_body(receive: Receive, limit: int) -> Receive:
    image = 0

    async def receive_counted() -> Message:
        nonlocal image
        message = await receive()
        image += len(message.get("body", b""))
        if image > limit:
            # While the framework reads a body it passes on only its own exception.
            raise HTTPException(413, _too_large(limit).what)
        return message

    return receive_counted


def _internal_error(path: str) -> Response:
    return problem.response(problem.unexpected_failure(), path)


def _too_large(limit: int) -> problem.Failure:
    return problem.Failure(413, "too_large", f"the body is larger than {limit >> 20} MiB", "send less")
