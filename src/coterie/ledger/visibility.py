"""What the caller of this request may see: set once per request, and read by every view that shows deployments.

Outside a request, and for callers that are not limited to teams, everything is visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.ledger.tables import events, ownerships, tasks


class Visibility(NamedTuple):
    """`caller`: the identity under which tasks of no deployment are requested; no two callers share one."""

    teams: frozenset[str]
    caller: str


_VISIBILITY: ContextVar[Visibility | None] = ContextVar("visibility", default=None)


@contextmanager
def limit_to(visibility: Visibility | None) -> Iterator[None]:
    before = _VISIBILITY.set(visibility)
    try:
        yield
    finally:
        _VISIBILITY.reset(before)


def is_limited() -> bool:
    return _VISIBILITY.get() is not None


def visible_teams() -> frozenset[str] | None:
    """The teams that the caller is limited to; None: not limited."""
    visibility = _VISIBILITY.get()
    return visibility.teams if visibility else None


def visible(deployment: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """For a column with the name of a deployment: whether the caller's teams own it."""
    visibility = _VISIBILITY.get()
    if visibility is None:
        return sa.true()
    owned = sa.select(ownerships.c.deployment).where(ownerships.c.team.in_(sorted(visibility.teams)))
    return deployment.in_(owned)


def visible_task() -> sa.ColumnElement[bool]:
    """A task of a visible deployment, or one of no deployment that the caller requested."""
    visibility = _VISIBILITY.get()
    if visibility is None:
        return sa.true()
    mine = sa.and_(tasks.c.deployment.is_(None), tasks.c.requested_by == visibility.caller)
    return sa.or_(visible(tasks.c.deployment), mine)


def visible_event() -> sa.ColumnElement[bool]:
    if _VISIBILITY.get() is None:
        return sa.true()
    return events.c.task.in_(sa.select(tasks.c.id).where(visible_task()))
