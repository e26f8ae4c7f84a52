"""The gate before the routes: finds out who asks, refuses what they may not, and has changes recorded."""

from __future__ import annotations

import math

from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.director.access import door, record, rules
from coterie.director.access.attempts import Attempts
from coterie.director.access.caller import Caller, acting, of_socket
from coterie.director.context import Office
from coterie.director.http import problem
from coterie.errors import CoterieError, TooManyAttempts, Unauthenticated, Unreachable
from coterie.ledger.errors import DatabaseError

_OPEN_PATHS = ("/livez",)


class Gate:
    def __init__(self, app: ASGIApp, office: Office) -> None:
        self._app = app
        self._office = office
        self._attempts = Attempts()
        self._owner = of_socket()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        caller: Caller | None = None
        try:
            caller = await self._admitted(scope)
            rules.require(caller, scope["method"], scope["path"])
        except CoterieError as error:
            await self._refuse(error, caller, scope, receive, send)
            return
        with acting(caller):
            await self._app(scope, receive, self._recorded(caller, scope, send))

    async def _admitted(self, scope: Scope) -> Caller:
        if not self._office.locked:
            return self._owner
        peer, credential = _peer(scope), _credential(scope)
        if not credential:
            raise door.unauthenticated()
        self._attempts.check(peer, credential)
        try:
            found = await run_in_threadpool(door.caller_of, self._office, credential)
        except Unauthenticated:
            self._attempts.failed(peer, credential)
            raise
        except DatabaseError as error:
            raise Unreachable("the ledger does not answer", remedy="try again in a moment") from error
        self._attempts.succeeded(credential)
        return found

    async def _refuse(
        self, error: CoterieError, caller: Caller | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # A flood must not fill the ledger: neither who shows no credential is written down, nor who shows too many.
        silent = isinstance(error, TooManyAttempts | Unreachable) or not (caller or _credential(scope))
        out = send if silent else self._recorded(caller, scope, send)
        answer = problem.response(error, scope["path"])
        if isinstance(error, Unauthenticated):
            answer.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, TooManyAttempts):
            answer.headers["Retry-After"] = str(math.ceil(error.details["retry_after"]))
        await answer(scope, receive, out)

    def _recorded(self, caller: Caller | None, scope: Scope, send: Send) -> Send:
        method, path = scope["method"], scope["path"]
        if not rules.rule_of(method, path).changes:
            return send

        async def out(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Before the answer leaves: whoever has one can rely on the record.
                made = Headers(raw=message.get("headers", ())).get("location")
                known = (caller, _peer(scope), method, path, message["status"], made)
                await run_in_threadpool(record.write, self._office.ledger, *known)
            await send(message)

        return out


def _credential(scope: Scope) -> str:
    return door.bearer(Headers(scope=scope).get("authorization", ""))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
