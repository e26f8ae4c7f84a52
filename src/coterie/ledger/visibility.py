"""What the present caller may see: set once per request, and asked by every view that shows deployments or theirs.

Outside a request, and for callers who are not limited to teams, everything is visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.ledger.tables import events, ownerships, tasks


class Sight(NamedTuple):
    teams: frozenset[str]
    who: str


_SIGHT: ContextVar[Sight | None] = ContextVar("sight", default=None)


@contextmanager
def limited_to(sight: Sight | None) -> Iterator[None]:
    before = _SIGHT.set(sight)
    try:
        yield
    finally:
        _SIGHT.reset(before)


def limited() -> bool:
    return _SIGHT.get() is not None


def visible(deployment: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """For a column with the name of a deployment: whether the caller's teams own it."""
    sight = _SIGHT.get()
    if sight is None:
        return sa.true()
    owned = sa.select(ownerships.c.deployment).where(ownerships.c.team.in_(sorted(sight.teams)))
    return deployment.in_(owned)


def visible_task() -> sa.ColumnElement[bool]:
    """A task of a visible deployment, or one that the caller asked for and that belongs to none."""
    sight = _SIGHT.get()
    if sight is None:
        return sa.true()
    mine = sa.and_(tasks.c.deployment.is_(None), tasks.c.requested_by == sight.who)
    return sa.or_(visible(tasks.c.deployment), mine)


def visible_event() -> sa.ColumnElement[bool]:
    if _SIGHT.get() is None:
        return sa.true()
    return events.c.task.in_(sa.select(tasks.c.id).where(visible_task()))
