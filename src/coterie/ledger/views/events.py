"""Events as the API shows them: pages, and tails for clients that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import events, tasks
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when
from coterie.ledger.visibility import visible_event

# No transaction stays open for longer: an event that is older than this can not come in before a newer one.
_LATEST_COMMIT_S = 30.0


def of_task(tx: Tx, task: int, part: Slice) -> Page:
    found = fetch(tx, sa.select(*events.c).where(events.c.task == task, visible_event()), [events.c.n], part)
    return Page([_view(row) for row in found.items], found.next)


@dataclass(frozen=True, slots=True)
class Filter:
    """`deployment`: whose tasks' events they are; `without`: a kind of task whose begin and end are left out, not what
    it found."""

    kind: str | None = None
    subject: str | None = None
    deployment: str | None = None
    without: str | None = None

    def narrow(self, query: sa.Select[Any]) -> sa.Select[Any]:
        query = matching(query, {events.c.kind: self.kind, events.c.subject: self.subject})
        if self.deployment is not None:
            query = query.where(events.c.task.in_(sa.select(tasks.c.id).where(tasks.c.deployment == self.deployment)))
        if self.without is not None:
            theirs = sa.exists().where(tasks.c.id == events.c.task, tasks.c.kind == self.without)
            query = query.where(sa.not_(sa.and_(events.c.kind.startswith("task."), theirs)))
        return query


EVERY = Filter()


def page(tx: Tx, part: Slice, wanted: Filter = EVERY) -> Page:
    """Newest first."""
    query = wanted.narrow(sa.select(*events.c).where(visible_event()))
    found = fetch(tx, query, [events.c.id], part, newest_first=True)
    return Page([_view(row) for row in found.items], found.next)


def after(tx: Tx, task: int, n: int, limit: int) -> list[Row]:
    """Events of a task after its n-th: numbered in commit order, so none can be missed."""
    later = sa.select(*events.c).where(events.c.task == task, events.c.n > n, visible_event())
    query = later.order_by(events.c.n).limit(limit)
    return [_view(dict(row._mapping)) for row in tx.execute(query)]


class Tail:
    """All events from an id on. Ids of different tasks may commit out of order, so the young ones are read again."""

    def __init__(self, last: int, wanted: Filter = EVERY) -> None:
        self._floor = last
        self._wanted = wanted
        self._given: set[int] = set()

    def more(self, tx: Tx, limit: int) -> list[Row]:
        fresh = sa.select(*events.c).where(events.c.id > self._floor, events.c.id.not_in(sorted(self._given)))
        fresh = self._wanted.narrow(fresh.where(visible_event()))
        rows = [dict(row._mapping) for row in tx.execute(fresh.order_by(events.c.id).limit(limit))]
        self._given.update(row["id"] for row in rows)
        self._settle(tx)
        if self._wanted != EVERY and len(rows) < limit:
            self._pass_over(tx)
        return [_view(row) for row in rows]

    @property
    def floor(self) -> int:
        """Events up to this id are not read any more."""
        return self._floor

    @property
    def remembered(self) -> int:
        return len(self._given)

    def _settle(self, tx: Tx) -> None:
        if not self._given:
            return
        old = sa.select(sa.func.max(events.c.id)).where(
            events.c.id.in_(sorted(self._given)), events.c.at < now() - _LATEST_COMMIT_S
        )
        self._floor = max(self._floor, tx.execute(old).scalar() or 0)
        self._given = {n for n in self._given if n > self._floor}

    def _pass_over(self, tx: Tx) -> None:
        """What is left out is not read again for ever. It is twice as old as what may still come in before a newer
        event, since it is read after the others."""
        old = events.c.at < now() - 2 * _LATEST_COMMIT_S
        passed = sa.select(sa.func.max(events.c.id)).where(events.c.id > self._floor, old)
        self._floor = max(self._floor, tx.execute(passed).scalar() or 0)
        self._given = {n for n in self._given if n > self._floor}


def newest(tx: Tx) -> int:
    return tx.execute(sa.select(sa.func.max(events.c.id))).scalar() or 0


def _view(row: dict[str, Any]) -> Row:
    return {**row, "at": when(row["at"])}
