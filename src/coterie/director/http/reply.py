"""Forms of an answer: JSON without secrets, pages, entity tags, and the 202 that names a task."""

from __future__ import annotations

import math
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Header, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from coterie.cpi.wire.strict import readable
from coterie.director.http.problem import MEDIA_TYPE, Problem
from coterie.director.middleware.api_version import hide_newer_fields
from coterie.errors import StalePlan
from coterie.ledger.views.page import Page, Slice
from coterie.redact import hide

T = TypeVar("T")
Json = dict[str, Any]
# Characters of names and filters: the ledger holds no others, so there is no need to search for them.
Word = Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z0-9_.:/@+~#, -]*$")]


class OwnJson(JSONResponse):
    """For what the program itself is made of, such as examples in its documentation: there is no secret in it."""

    def render(self, content: Any) -> bytes:
        return super().render(hide_newer_fields(content))


class SafeJson(JSONResponse):
    """Every other answer passes here, so no route can forget to hide secrets, or fields newer than the caller's
    version."""

    def render(self, content: Any) -> bytes:
        shown = hide_newer_fields(hide(content))
        try:
            return super().render(shown)
        except ValueError:  # an earlier release stored what JSON cannot hold; the rest of a page must stay readable
            return super().render(_writable(shown))


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {readable(str(key)): _writable(one) for key, one in value.items()}
    return [_writable(one) for one in value] if isinstance(value, list | tuple) else value


class Resource(BaseModel):
    """The root of what the API shows: known fields are described, unknown ones pass."""

    model_config = ConfigDict(extra="allow")


class Listing(BaseModel, Generic[T]):
    """One page. `next` is the cursor of the following one, null on the last."""

    items: list[T]
    next: str | None = None


class Accepted(BaseModel):
    """Work was started; follow it at `Location`."""

    task_id: int


def _slice(
    limit: Annotated[int, Query(ge=1, le=1000, description="rows on a page")] = 100,
    cursor: Annotated[str | None, Query(max_length=2000, description="`next` of the page before")] = None,
) -> Slice:
    return Slice(limit, cursor)


Part = Annotated[Slice, Depends(_slice)]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem (RFC 9457)", "model": Problem, "content": {MEDIA_TYPE: {}}}
}


def listing(page: Page) -> Json:
    return {"items": page.items, "next": page.next}


IfMatch = Annotated[str | None, Header(max_length=1000, description="ETag that was read; another one now → 412")]


def tag(value: int | str) -> str:
    return f'"{value}"'


def require_match(if_match: str | None, value: int | str, what: str) -> None:
    """Refuse a change that was based on another state than the present one."""
    if if_match is None or if_match.strip() == "*":
        return
    offered = [one.strip().removeprefix("W/") for one in if_match.split(",")]
    if tag(value) not in offered:
        raise StalePlan(
            f"{what} has changed since it was read",
            why=f"its tag is {tag(value)} now, not {if_match}",
            remedy="read it again, look at what changed, and repeat",
        )
