"""Logging in: with a token, by a one-time link, or at the issuer; and logging out."""

from __future__ import annotations

from dataclasses import replace

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coterie.director.access import record
from coterie.director.access.caller import Caller
from coterie.director.access.middleware import OVER_LOOPBACK, authenticate
from coterie.director.console import render, sessions
from coterie.director.console.api import Api, Refusal
from coterie.director.console.oidc_login import OidcLogin
from coterie.director.console.page import Page, endpoint, failure, is_same_origin, safe_target
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.errors import CoterieError

_LONGEST = 20_000


class Login:
    def __init__(self, context: AppContext, app: ASGIApp) -> None:
        self._context = context
        self._app = app
        self._oidc = OidcLogin.of(context.settings) if context.oidc is not None else None

    @property
    def _cookie(self) -> str:
        return sessions.cookie_name(self._context.identity)

    def routes(self) -> list[Route]:
        return [
            Route("/login", self.form, methods=["GET"]),
            Route("/login", self.with_token, methods=["POST"]),
            Route("/login/link", self.by_link, methods=["GET"]),
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

    async def by_link(self, request: Request) -> Response:
        code = request.query_params.get("code", "")
        caller = (
            await run_in_threadpool(sessions.take_link_code, self._context, code, _listener(request)) if code else None
        )
        if caller is None:
            return failure(401, "this link was used already, or is too old", "run `coterie console` again")
        return await self._begin(request, caller, "/")

    async def to_issuer(self, request: Request) -> Response:
        if self._oidc is None:
            return failure(404, "this Director has no issuer to log in at", "log in with a token")
        target = safe_target(request.query_params.get("next", "/"))
        try:
            return await run_in_threadpool(self._oidc.redirect, request, target)
        except CoterieError as error:
            return failure(503, error.what, error.remedy)

    async def from_issuer(self, request: Request) -> Response:
        if self._oidc is None or self._context.oidc is None:
            return failure(404, "this Director has no issuer to log in at", "log in with a token")
        try:
            token, target = await run_in_threadpool(self._oidc.redeem, request)
            caller = await run_in_threadpool(self._context.oidc.caller_of, token, self._oidc.client)
        except CoterieError as error:
            return failure(403, error.what, error.remedy or "log in again")
        if caller is None:
            return failure(403, "the issuer's token is not valid here", "check oidc_issuer and oidc_audience")
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
        peer = request.client.host if request.client else ""
        known = (caller, peer, request.method, request.url.path, 303, None)
        await run_in_threadpool(record.write, self._context.ledger, *known)

    def _form(self, target: str, problem: dict[str, object] | None = None, status: int = 200) -> Response:
        values = {"target": target, "problem": problem, "oidc": self._oidc is not None}
        return HTMLResponse(render.page("login.html", {**values, "director": self._context.identity.name}), status)


def _listener(request: Request) -> str:
    found: str = request.scope.get(OVER_LOOPBACK, "")
    return found


def routes(app: Starlette | ASGIApp, context: AppContext) -> list[Route]:
    return Login(context, app).routes()
