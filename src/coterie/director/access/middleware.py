"""Authenticates the caller of each request, refuses what its role may not do, and records changes.

A caller is the socket's owner, or holds the Director's own token, an API token, or an issuer's JSON web token.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from contextlib import AbstractAsyncContextManager, nullcontext

from anyio import CapacityLimiter, to_thread
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.director.access import record, rules, tokens
from coterie.director.access.attempts import client_address
from coterie.director.access.caller import Caller, act_as, socket_owner
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.errors import CoterieError, TooManyAttempts, Unauthenticated, Unreachable
from coterie.ledger.errors import DatabaseError
from coterie.ledger.rows.tokens import valid_ids

CALLER = "coterie.caller"  # in the scope of a call of this process: the caller that a page has authenticated
OVER_LOOPBACK = "coterie.loopback"  # in the scope of a request to the listener that was opened for the console: its id
_OPEN_PATHS = ("/livez", "/readyz")
_ISSUER_THREADS = 8
_IDS_S = 1.0


class AccessMiddleware:
    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._context = context
        self._owner = socket_owner()
        self._issuer_threads = CapacityLimiter(_ISSUER_THREADS)
        self._ids: frozenset[str] = frozenset()
        self._ids_read_at = -_IDS_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        caller: Caller | None = None
        try:
            caller = await self._authenticate(scope)
            rules.require(caller, scope["method"], scope["path"])
        except CoterieError as error:
            await self._refuse(error, caller, scope, receive, send)
            return
        with act_as(caller):
            async with self._slot(caller, scope):
                await self._app(scope, receive, self._record_changes(caller, scope, send))

    def _slot(self, caller: Caller, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Streams have a limit of their own, and an upload works on nothing most of the time."""
        lasts = scope["path"].endswith("/events") or (scope["method"], scope["path"]) == ("POST", "/v1/stemcells")
        free = lasts or not self._context.locked
        return nullcontext() if free else self._context.requests.take(caller.identity)

    async def _authenticate(self, scope: Scope) -> Caller:
        if CALLER in scope:
            known: Caller = scope[CALLER]
            return known
        if not self._context.locked and OVER_LOOPBACK not in scope:
            return self._owner
        peer, credential = address_of(self._context, scope), _credential(scope)
        if not credential:
            raise token_required()
        try:
            if self._context.attempts.is_over(peer, credential):
                self._context.attempts.check(peer, credential, await self._valid_ids())
            found = await to_thread.run_sync(authenticate, self._context, credential, limiter=self._threads(credential))
        except Unauthenticated:
            self._context.attempts.count_failure(peer, credential)
            raise
        except DatabaseError as error:
            raise Unreachable("the ledger does not answer", remedy="try again in a moment") from error
        self._context.attempts.remember_success(credential)
        return found

    def _threads(self, credential: str) -> CapacityLimiter | None:
        # An issuer that hangs may hold the threads for its own tokens, and no others.
        return None if tokens.is_token(credential) else self._issuer_threads

    async def _valid_ids(self) -> frozenset[str]:
        """Ids of valid tokens, read at most once a second however many requests are over the limit."""
        if time.monotonic() - self._ids_read_at >= _IDS_S:
            self._ids_read_at = time.monotonic()
            self._ids = await to_thread.run_sync(_read_valid_ids, self._context)
        return self._ids

    async def _refuse(
        self, error: CoterieError, caller: Caller | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # A flood of requests must not fill the ledger: record none without a credential, and none over the limit.
        silent = isinstance(error, TooManyAttempts | Unreachable) or not (caller or _credential(scope))
        out = send if silent else self._record_changes(caller, scope, send)
        answer = problem.response(error, scope["path"])
        if isinstance(error, Unauthenticated):
            answer.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, TooManyAttempts):
            answer.headers["Retry-After"] = str(math.ceil(error.details["retry_after"]))
        await answer(scope, receive, out)

    def _record_changes(self, caller: Caller | None, scope: Scope, send: Send) -> Send:
        method, path = scope["method"], scope["path"]
        if not rules.rule_of(method, path).changes:
            return send

        async def out(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Before the answer leaves: a caller that has one can rely on the record.
                made = Headers(raw=message.get("headers", ())).get("location")
                known = (caller, address_of(self._context, scope), method, path, message["status"], made)
                await run_in_threadpool(record.write, self._context.ledger, *known)
            await send(message)

        return out


def address_of(context: AppContext, scope: Scope) -> str:
    """The client's address, as far as its connection and trusted proxies tell."""
    trusted = context.settings["trusted_proxies"]
    forwarded = Headers(scope=scope).getlist("x-forwarded-for") if trusted else []
    return client_address(_peer(scope), ",".join(forwarded), trusted) if forwarded else _peer(scope)


def _read_valid_ids(context: AppContext) -> frozenset[str]:
    with context.ledger.read() as tx:
        return valid_ids(tx)


def _credential(scope: Scope) -> str:
    return _bearer_token(Headers(scope=scope).get("authorization", ""))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def authenticate(context: AppContext, credential: str) -> Caller:
    """`credential`: the text after `Bearer`. May read the ledger and, for new keys, call the issuer."""
    found = _find_caller(context, credential)
    if found is None:
        raise token_required()
    return found


def _bearer_token(header: str) -> str:
    kind, _, offered = header.partition(" ")
    return offered.strip() if kind.lower() == "bearer" else ""


def token_required() -> Unauthenticated:
    return Unauthenticated(
        "this Director requires a bearer token, and the one that was sent is missing, wrong, expired or revoked",
        remedy="set COTERIE_TOKEN, or COTERIE_TOKEN_FILE to a file with it; an admin makes one: coterie tokens create",
    )


def _find_caller(context: AppContext, credential: str) -> Caller | None:
    if context.token is not None and _same(credential, context.token):
        return Caller("director-token", "admin", "token")
    if tokens.is_token(credential):
        return tokens.caller_of(context.ledger, credential)
    if context.oidc is not None and credential.count(".") == 2:
        return context.oidc.caller_of(credential)
    return None


def _same(offered: str, expected: str) -> bool:
    """Constant time for any lengths."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (offered, expected)]
    return hmac.compare_digest(*digests)
