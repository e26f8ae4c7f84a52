"""Before everything else: how much a request may carry, and a calm answer when something breaks."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie import __version__
from coterie.director.context import Office
from coterie.director.http import problem
from coterie.errors import CoterieError

log = logging.getLogger(__name__)
LARGEST_BODY = 10 * 2**20
LARGEST_UPLOAD = 64 * 2**30


class Guard:
    def __init__(self, app: ASGIApp, office: Office) -> None:
        self._app = app
        self._office = office

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._office.activity.begin()
        try:
            await self._answer(scope, receive, _Sender(send))
        finally:
            self._office.activity.end()

    async def _answer(self, scope: Scope, receive: Receive, send: _Sender) -> None:
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem.response(refusal, scope["path"])(scope, receive, send)
            return
        try:
            await self._app(scope, _limited(receive, _limit(scope)), send)
        except Exception:
            log.exception("%s %s broke", scope["method"], scope["path"])
            if not send.started:
                await _broken(scope["path"])(scope, receive, send)

    def _refusal(self, scope: Scope) -> CoterieError | None:
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > _limit(scope):
            return _too_large(_limit(scope))
        return None


class _Sender:
    """Passes messages on, signs the answer with our version, and remembers whether it has begun."""

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


def _limited(receive: Receive, limit: int) -> Receive:
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > limit:
            # The framework passes only its own exception on while it reads a body.
            raise HTTPException(413, _too_large(limit).what)
        return message

    return counted


def _broken(path: str) -> Response:
    return problem.response(problem.unexpected(), path)


def _too_large(limit: int) -> problem.Failure:
    return problem.Failure(413, "too_large", f"the body is larger than {limit >> 20} MiB", "send less")
