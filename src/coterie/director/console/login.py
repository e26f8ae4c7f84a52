"""Logging in: with a token, by a one-time link, or at the issuer; and logging out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coterie.director.access import record
from coterie.director.access.caller import Caller
from coterie.director.access.middleware import OVER_LOOPBACK, address_of, authenticate
from coterie.director.console import render, sessions
from coterie.director.console.api import Api, Refusal
from coterie.director.console.oidc_login import OidcLogin
from coterie.director.console.page import Page, endpoint, failure, is_same_origin, safe_target
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.errors import CoterieError, Forbidden, TooManyAttempts, Unauthenticated, Unreachable
from coterie.ledger.errors import DatabaseError

_LONGEST = 20_000
_ISSUER_THREADS = 8
ReadCode = Callable[[AppContext, str, str], Caller | None]


class Login:
    def __init__(self, context: AppContext, app: ASGIApp) -> None:
        self._context = context
        self._app = app
        self._issuer_threads = CapacityLimiter(_ISSUER_THREADS)  # an issuer that hangs holds these, and no others
        self._oidc = OidcLogin.of(context.settings) if context.oidc is not None else None

    @property
    def _cookie(self) -> str:
        return sessions.cookie_name(self._context.identity)

    def routes(self) -> list[Route]:
        return [
            Route("/login", self.form, methods=["GET"]),
            Route("/login", self.with_token, methods=["POST"]),
            Route("/login/link", self.ask_about_link, methods=["GET"]),
            Route("/login/link", self.by_link, methods=["POST"]),
            Route("/login/oidc", self.to_issuer, methods=["GET"]),
            Route("/login/oidc/callback", self.from_issuer, methods=["GET"]),
            Route("/logout", endpoint(self._context, self._app, self._log_out), methods=["POST"]),
        ]

    async def form(self, request: Request) -> Response:
        return self._form(safe_target(request.query_params.get("next", "/")))

    async def with_token(self, request: Request) -> Response:
        """The token is checked by the API, with its limit of failed log-ins."""
        form = await request.form(max_files=0, max_fields=10)
        token, target = str(form.get("token", "")).strip(), safe_target(str(form.get("next", "/")))
        if not is_same_origin(request):
            return self._form(target, {"what": "this form came from another site", "remedy": "log in here"}, 403)
        if not token or len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
            return self._form(target, {"what": "this is not a token", "remedy": "paste the whole token"}, 401)
        try:
            await Api(self._app, request.scope, None).send(
                "GET", "/v1/whoami", headers={"authorization": f"Bearer {token}"}
            )
            caller = await run_in_threadpool(authenticate, self._context, token)
        except Refusal as refusal:
            return self._form(target, refusal.problem, refusal.status)
        except CoterieError as error:
            body = problem.body_of(error, request.url.path)
            return self._form(target, body, body["status"])
        return await self._begin(request, caller, target)

    async def ask_about_link(self, request: Request) -> Response:
        """Whom the link logs in, and a button: it may come from another user, and programs open links, too."""
        code = request.query_params.get("code", "")
        try:
            caller = await self._caller_of_code(request, code, sessions.link_caller)
        except CoterieError as error:
            return _failure_of(error)
        values = {"code": code, "caller": caller, "director": self._context.identity.name}
        return HTMLResponse(render.page("link.html", values))

    async def by_link(self, request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=10)
        if not is_same_origin(request):
            return failure(403, "this form came from another site", "run `coterie console`, and open its link")
        try:
            caller = await self._caller_of_code(request, str(form.get("code", "")), sessions.take_link_code)
        except CoterieError as error:
            return _failure_of(error)
        return await self._begin(request, caller, "/")

    async def _caller_of_code(self, request: Request, code: str, read: ReadCode) -> Caller:
        peer, attempts = address_of(self._context, request.scope), self._context.attempts
        attempts.check(peer, code)
        try:
            caller = await run_in_threadpool(read, self._context, code, _listener(request)) if code else None
        except DatabaseError as error:
            raise Unreachable("the ledger does not answer", remedy="try again in a moment") from error
        if caller is None:
            attempts.count_failure(peer, code)
            raise Unauthenticated("this link was used already, or is too old", remedy="run `coterie console` again")
        return caller

    async def to_issuer(self, request: Request) -> Response:
        if self._oidc is None:
            return failure(404, "this Director has no issuer to log in at", "log in with a token")
        target = safe_target(request.query_params.get("next", "/"))
        try:
            return await to_thread.run_sync(self._oidc.redirect, request, target, limiter=self._issuer_threads)
        except CoterieError as error:
            return failure(503, error.what, error.remedy)

    async def from_issuer(self, request: Request) -> Response:
        if self._oidc is None or self._context.oidc is None:
            return failure(404, "this Director has no issuer to log in at", "log in with a token")
        peer, attempts, threads = address_of(self._context, request.scope), self._context.attempts, self._issuer_threads
        try:
            attempts.check(peer, "")
            token, target = await to_thread.run_sync(self._oidc.redeem, request, limiter=threads)
            known = (token, self._oidc.client)
            caller = await to_thread.run_sync(self._context.oidc.caller_of, *known, limiter=threads)
            if caller is None:
                raise Forbidden("the issuer's token is not valid here", remedy="check oidc_issuer and oidc_audience")
        except (TooManyAttempts, Unreachable) as error:
            return _failure_of(error)
        except CoterieError as error:
            attempts.count_failure(peer, "")  # a browser makes up such a request easily, and the issuer is asked for it
            return failure(403, error.what, error.remedy or "log in again")
        # Identity tokens live for minutes: the session lasts as long as it is set, and is the log-in from now on.
        answer = await self._begin(request, replace(caller, expires_at=None), target)
        self._oidc.forget(answer)
        return answer

    async def _begin(self, request: Request, caller: Caller, target: str) -> Response:
        hours = self._context.settings["console_session_hours"]
        presented = request.cookies.get(self._cookie, "")
        known = (caller, hours, _listener(request), presented)
        secret, seconds = await run_in_threadpool(sessions.begin, self._context, *known)
        await self._record(request, caller)
        # A page, not a redirect: the browser holds a strict cookie back while it follows one from another site.
        answer = HTMLResponse(render.page("again.html", {"target": safe_target(target)}))
        answer.set_cookie(
            self._cookie, secret, max_age=seconds, path="/", secure=True, httponly=True, samesite="strict"
        )
        return answer

    async def _log_out(self, page: Page) -> Response:
        await run_in_threadpool(sessions.end, self._context.ledger, page.secret)
        await self._record(page.request, page.caller)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(self._cookie, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    async def _record(self, request: Request, caller: Caller) -> None:
        known = (caller, address_of(self._context, request.scope), request.method, request.url.path, 303, None)
        await run_in_threadpool(record.write, self._context.ledger, *known)

    def _form(self, target: str, problem: dict[str, object] | None = None, status: int = 200) -> Response:
        values = {"target": target, "problem": problem, "oidc": self._oidc is not None}
        return HTMLResponse(render.page("login.html", {**values, "director": self._context.identity.name}), status)


def _failure_of(error: CoterieError) -> Response:
    body = problem.body_of(error, "")
    return failure(body["status"], error.what, error.remedy)


def _listener(request: Request) -> str:
    found: str = request.scope.get(OVER_LOOPBACK, "")
    return found


def routes(app: Starlette | ASGIApp, context: AppContext) -> list[Route]:
    return Login(context, app).routes()
