"""One request for a page: its caller, the API as that caller, and the answer as HTML. Forms are checked here."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from coterie.director.access import rules
from coterie.director.access.caller import Caller
from coterie.director.access.middleware import OVER_LOOPBACK
from coterie.director.console import render, sessions
from coterie.director.console.api import Api, Refusal
from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.errors import CoterieError, Forbidden
from coterie.ledger.errors import DatabaseError

log = logging.getLogger(__name__)
Handler = Callable[["Page"], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]
_UNSAFE = ("POST",)
_MOST_FIELDS = 5000
_LARGEST_FIELD = 10 << 20  # as the body of any request


@dataclass
class Page:
    context: AppContext
    request: Request
    api: Api
    caller: Caller
    secret: str
    form: FormData
    since: int = 0  # the newest event before the page was read: live updates begin after it

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    def field(self, name: str, default: str = "") -> str:
        """A text field of the form that was sent."""
        value = self.form.get(name, default)
        return value if isinstance(value, str) else default

    def fields(self, name: str) -> list[str]:
        return [one for one in self.form.getlist(name) if isinstance(one, str)]

    def has_session(self) -> bool:
        """Whether the ledger says that its session is still valid."""
        try:
            return _read_caller(self.context, self.request, self.secret) is not None
        except DatabaseError:
            return False

    def may(self, method: str, path: str) -> bool:
        """Whether the API would let this caller try; a button is shown only then."""
        try:
            rules.require(self.caller, method, path)
        except Forbidden:
            return False
        return True

    def show(self, template: str, /, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(render.page(template, {**self._frame, **values}), status)

    def refuse(self, refusal: Refusal, **values: Any) -> Response:
        return self.show("problem.html", refusal.status, problem=refusal.problem, **values)

    @cached_property
    def _frame(self) -> dict[str, Any]:
        return {
            "me": self.caller,
            "may": self.may,
            "csrf": sessions.csrf_token(self.secret),
            "path": self.request.url.path,
            "here": self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
            "director": self.context.identity.name,
            "live": "",
            "since": self.since,
        }


def endpoint(context: AppContext, app: ASGIApp, handle: Handler) -> Endpoint:
    """A route for callers with a session; others are asked to log in."""

    async def answer(request: Request) -> Response:
        secret = request.cookies.get(sessions.cookie_name(context.identity), "")
        try:
            caller = await run_in_threadpool(_read_caller, context, request, secret)
        except DatabaseError:
            return failure(503, "the ledger does not answer", "try again in a moment")
        if caller is None:
            return _ask_for_login(request)
        api = Api(app, request.scope, caller)
        form = await _read_form(request)
        page = Page(context, request, api, caller, secret, form)
        if request.method in _UNSAFE and not _is_ours(request, form, secret):
            return page.show("problem.html", 403, problem=_FOREIGN)
        try:
            if request.method == "GET":
                newest = (await api.get("/v1/events", limit=1))["items"]
                page.since = newest[0]["id"] if newest else 0
            return await handle(page)
        except Refusal as refusal:
            return page.refuse(refusal)
        except CoterieError as error:
            body = problem.body_of(error, request.url.path)
            return page.show("problem.html", body["status"], problem=body)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return failure(500, "the Director failed unexpectedly", "see its log: coterie doctor")

    return answer


def _read_caller(context: AppContext, request: Request, secret: str) -> Caller | None:
    return sessions.caller_of(context, secret, request.scope.get(OVER_LOOPBACK, "")) if secret else None


_FOREIGN = {
    "what": "this form is not of your session",
    "why": "it came from another site, or you have logged in again since it was loaded",
    "remedy": "load the page again, and repeat",
    "status": 403,
}


async def _read_form(request: Request) -> FormData:
    kind = request.headers.get("content-type", "").partition(";")[0]
    if request.method != "POST" or kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        return FormData()
    return await request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=_LARGEST_FIELD)


def _is_ours(request: Request, form: FormData, secret: str) -> bool:
    offered = request.headers.get("x-csrf-token") or form.get("csrf")
    known = isinstance(offered, str) and hmac.compare_digest(offered.encode(), sessions.csrf_token(secret).encode())
    return known and is_same_origin(request)


def is_same_origin(request: Request) -> bool:
    """What the browser says of the page that sent the request; silence is left to the token."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or origin == "null" or urlsplit(origin).netloc == request.headers.get("host")


def _ask_for_login(request: Request) -> Response:
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        # A link on another site: the strict cookie was held back. Our own page may ask again.
        return HTMLResponse(render.page("again.html", {"target": request.url.path}))
    if request.headers.get("hx-request") or "text/event-stream" in request.headers.get("accept", ""):
        return Response("the session has ended", 401, headers={"HX-Redirect": "/login"})
    if request.method != "GET":
        return failure(401, "your session has ended", "nothing was changed: log in, and repeat it")
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(target)}", 303)


def safe_target(target: str) -> str:
    """A path of this console; anything else leads to the first page."""
    parts = urlsplit(target)
    ours = target.startswith("/") and not target.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return target if ours and target.isprintable() and "\\" not in target else "/"


def go(target: str) -> Response:
    return RedirectResponse(target, 303)


def failure(status: int, what: str, remedy: str) -> Response:
    """A page for callers that are not known."""
    return HTMLResponse(render.page("failure.html", {"what": what, "remedy": remedy, "status": status}), status)


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # registered for this class only
    known = {404: "there is no such page", 405: "this page does not take that kind of request"}
    return failure(error.status_code, known.get(error.status_code, str(error.detail)), "go back to the first page")
