"""Which version of the API a request speaks, and what that hides: one header, answered on every response.

A client that says nothing is one from before versions: it gets the oldest. What a version adds is in one table here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Any

from fastapi import Depends, Header
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.director.http import problem

Version = tuple[int, int]
HEADER = "Coterie-API-Version"
OLDEST: Version = (1, 0)
NEWEST: Version = (1, 1)
_FIELDS: dict[str, Version] = {"conductor_group": (1, 1), "runs_in_group": (1, 1), "enrolled": (1, 1)}
_LATEST = "latest"
_spoken: ContextVar[Version] = ContextVar("spoken", default=NEWEST)


class Spoken:
    """Before every route: reads the header, refuses what cannot be spoken, signs the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope).get(HEADER)
        version = _read(asked)
        if version is None:
            refusal = problem.response(_unsupported(asked or ""), scope["path"])
            await refusal(scope, receive, _signed(send, NEWEST))
            return
        token = _spoken.set(version)
        try:
            await self._app(scope, receive, _signed(send, version))
        finally:
            _spoken.reset(token)


def fit(value: Any) -> Any:
    """The same JSON value without the fields that the version spoken does not have."""
    version = _spoken.get()
    hidden = frozenset(name for name, since in _FIELDS.items() if since > version)
    return _without(value, hidden) if hidden else value


def require(since: Version, what: str) -> None:
    """Refuse what the version spoken does not have."""
    if _spoken.get() < since:
        raise problem.Failure(
            406, "version_too_old", f"{what} came with version {_text(since)}", f"send {HEADER}: {_text(since)}"
        )


def refuse_new(sent: Mapping[str, Any]) -> None:
    """A body may not hold fields that its version does not have."""
    for name in sorted(sent.keys() & _FIELDS.keys()):
        require(_FIELDS[name], f"the field {name}")


async def _groups() -> None:
    require((1, 1), "this resource")


async def _documented(
    api_version: Annotated[
        str | None,
        Header(
            alias=HEADER,
            pattern=rf"^(latest|1\.[{OLDEST[1]}-{NEWEST[1]}])$",
            description=f"{_LATEST}, or 1.{OLDEST[1]} to 1.{NEWEST[1]}; default: the oldest. Others are refused (406).",
        ),
    ] = None,
) -> None:
    """For the OpenAPI document; the header has been read by then."""


SINCE_GROUPS = Depends(_groups)
DOCUMENTED = Depends(_documented)


def _read(asked: str | None) -> Version | None:
    if asked is None:
        return OLDEST
    if asked.strip().lower() == _LATEST:
        return NEWEST
    numbers = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", asked.strip())
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    return version if OLDEST <= version <= NEWEST else None


def _unsupported(asked: str) -> problem.Failure:
    shown = asked if re.fullmatch(r"[ -~]{0,40}", asked) else "this"
    return problem.Failure(
        406,
        "unsupported_version",
        f"this Director does not speak version {shown!r} of the API",
        f"send {HEADER}: {_text(OLDEST)} to {_text(NEWEST)}, or {_LATEST}; upgrade whichever of the two is older",
    )


def _signed(send: Send, version: Version) -> Send:
    signature = [
        (HEADER.lower().encode(), _text(version).encode()),
        (b"coterie-api-minimum-version", _text(OLDEST).encode()),
        (b"coterie-api-maximum-version", _text(NEWEST).encode()),
        (b"vary", HEADER.encode()),
    ]

    async def signing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *signature]
        await send(message)

    return signing


def _without(value: Any, hidden: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(one, hidden) for key, one in value.items() if key not in hidden}
    if isinstance(value, list | tuple):
        return [_without(one, hidden) for one in value]
    return value


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
