"""Limits the size of requests, and answers an unexpected exception with a problem."""

from __future__ import annotations

import asyncio
import logging
import time

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
TARBALLS = ("application/gzip", "application/x-gzip", "application/x-tar", "application/octet-stream")
BODY_S = 60.0
_UPLOADS = ("/v1/stemcells", "/clouds/stemcells")  # of the API, and of the console's page, which passes it on


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
            await self._app(scope, _limit_body(receive, _limit(scope), _is_upload(scope)), send)
        except asyncio.CancelledError:
            log.warning("%s %s was under way when the Director ended", scope["method"], scope["path"])
            if not send.started:
                await problem.response(_ending(), scope["path"])(scope, receive, send)
            raise
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not send.started:
                await _internal_error(scope["path"])(scope, receive, send)

    def _refusal(self, scope: Scope) -> CoterieError | None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have read the other of the two, and see other requests in this connection than we do.
            what = "Content-Length and Transfer-Encoding exclude each other"
            return problem.Failure(400, "bad_request", what, "send one of them", {"Connection": "close"})
        if length.isdigit() and int(length) > _limit(scope):
            return _too_large(_limit(scope))
        return None


def _ending() -> CoterieError:
    return problem.Failure(
        503,
        "unavailable",
        "this Director ends before it could answer",
        "repeat the request, with the same Idempotency-Key if it had one",
        {"Retry-After": "5"},
    )


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
    return LARGEST_UPLOAD if _is_upload(scope) else LARGEST_BODY


def _is_upload(scope: Scope) -> bool:
    """Only a tarball goes to a file as it comes; every other body is read into memory."""
    to_stemcells = scope["path"] in _UPLOADS and scope["method"] == "POST"
    kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    return to_stemcells and kind in TARBALLS


def _limit_body(receive: Receive, limit: int, is_upload: bool) -> Receive:
    size, ended = 0, False
    until: float | None = None  # counted from when it is read: before that, the request may wait for a slot

    async def receive_counted() -> Message:
        nonlocal size, ended, until
        if ended:  # what comes next is that the client has gone, whenever that is
            return await receive()
        until = until or time.monotonic() + BODY_S
        try:
            # An upload may take hours, but not rest for long; other bodies have to be complete in that time.
            message = await asyncio.wait_for(receive(), BODY_S if is_upload else until - time.monotonic())
        except TimeoutError as error:
            raise HTTPException(408, f"the body did not arrive within {BODY_S:.0f} s") from error
        ended = not message.get("more_body", False)
        size += len(message.get("body", b""))
        if size > limit:
            # While the framework reads a body it passes on only its own exception.
            raise HTTPException(413, _too_large(limit).what)
        return message

    return receive_counted


def _internal_error(path: str) -> Response:
    return problem.response(problem.unexpected_failure(), path)


def _too_large(limit: int) -> problem.Failure:
    return problem.Failure(413, "too_large", f"the body is larger than {limit >> 20} MiB", "send less")
