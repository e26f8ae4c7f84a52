"""The API version of a request: read from one header, set on every response; fields newer than it are hidden.

A client without the header predates versions: it gets the oldest. The fields that a version added are in one table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

from fastapi import Depends, Header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.director.context import AppContext
from coterie.director.http import problem
from coterie.ring.members import holds_groups

Version = tuple[int, int]
HEADER = "Coterie-API-Version"
OLDEST: Version = (1, 0)
NEWEST: Version = (1, 2)
_SINCE_GROUPS: Version = (1, 1)
_FIELDS: dict[str, Version] = {
    "conductor_group": _SINCE_GROUPS,
    "runs_in_group": _SINCE_GROUPS,
    "enrolled": _SINCE_GROUPS,
    "other_conductor_groups": (1, 2),
    "sealed_to": (1, 2),
    "sealed_again": (1, 2),
    "pinned_to": (1, 2),
    "alarms": (1, 2),
    "unfinished_task": (1, 2),
    "outside": (1, 2),
    "domains": (1, 2),
    "domain_word": (1, 2),
    "update_domains": (1, 2),
    "worst_domain": (1, 2),
    "cancelled_steps": (1, 2),
    "switches": (1, 2),
    "offers": (1, 2),
}
_LATEST = "latest"
_api_version: ContextVar[Version] = ContextVar("spoken", default=NEWEST)


class ApiVersionMiddleware:
    """Reads the header before the routes run, refuses an unsupported version, adds the version headers to answers.

    A Director that is pinned to a release from before conductor groups offers no version with them: a
    group that was set now would not count before the last service is unpinned.
    """

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app = app
        self._newest = _newest(context)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        requested = Headers(scope=scope).get(HEADER)
        version = _read(requested, self._newest)
        if version is None:
            refusal = problem.response(_unsupported_version(requested or "", self._newest), scope["path"])
            await refusal(scope, receive, _add_version_headers(send, self._newest, self._newest))
            return
        token = _api_version.set(version)
        try:
            await self._app(scope, receive, _add_version_headers(send, version, self._newest))
        finally:
            _api_version.reset(token)


@contextmanager
def use_newest(context: AppContext) -> Iterator[None]:
    """For requests of this process: pages of the console are of this release, and show all that there is."""
    token = _api_version.set(_newest(context))
    try:
        yield
    finally:
        _api_version.reset(token)


def _newest(context: AppContext) -> Version:
    pinned: str | None = context.settings["pin_release_version"]
    return NEWEST if pinned is None or holds_groups(pinned) else OLDEST


def hide_newer_fields(value: Any) -> Any:
    """The same JSON value without the fields that the request's API version does not have."""
    version = _api_version.get()
    hidden = frozenset(name for name, since in _FIELDS.items() if since > version)
    return _without(value, hidden) if hidden else value


def require(since: Version, what: str) -> None:
    """Refuse what the request's API version does not have."""
    if _api_version.get() < since:
        raise problem.Failure(
            406, "version_too_old", f"{what} came with version {_text(since)}", f"send {HEADER}: {_text(since)}"
        )


def refuse_newer_fields(sent: Mapping[str, Any]) -> None:
    """Refuse a body with fields that its API version does not have."""
    for name in sorted(sent.keys() & _FIELDS.keys()):
        require(_FIELDS[name], f"the field {name}")


async def _groups() -> None:
    require(_SINCE_GROUPS, "this resource")


async def _document_header(
    api_version: Annotated[
        str | None,
        Header(
            alias=HEADER,
            pattern=rf"^(latest|1\.[{OLDEST[1]}-{NEWEST[1]}])$",
            description=f"{_LATEST}, or 1.{OLDEST[1]} to 1.{NEWEST[1]}; default: the oldest. Others are refused (406).",
        ),
    ] = None,
) -> None:
    """For the OpenAPI document only: the middleware has read the header."""


SINCE_GROUPS = Depends(_groups)
DOCUMENTED = Depends(_document_header)


def _read(requested: str | None, newest: Version) -> Version | None:
    if requested is None:
        return OLDEST
    if requested.strip().lower() == _LATEST:
        return newest
    numbers = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", requested.strip())
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    return version if OLDEST <= version <= newest else None


def _unsupported_version(requested: str, newest: Version) -> problem.Failure:
    shown = requested if re.fullmatch(r"[ -~]{0,40}", requested) else "this"
    return problem.Failure(
        406,
        "unsupported_version",
        f"this Director does not support version {shown!r} of the API",
        f"send {HEADER}: {_text(OLDEST)} to {_text(newest)}, or {_LATEST}; upgrade whichever of the two is older",
    )


def _add_version_headers(send: Send, version: Version, newest: Version) -> Send:
    signature = [
        (HEADER.lower().encode(), _text(version).encode()),
        (b"coterie-api-minimum-version", _text(OLDEST).encode()),
        (b"coterie-api-maximum-version", _text(newest).encode()),
        (b"vary", HEADER.encode()),
    ]

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *signature]
        await send(message)

    return send_with_headers


def _without(value: Any, hidden: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(one, hidden) for key, one in value.items() if key not in hidden}
    if isinstance(value, list | tuple):
        return [_without(one, hidden) for one in value]
    return value


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
