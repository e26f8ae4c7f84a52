"""Claims: the ready steps that the ring gives to one conductor, taken by lease. A claim raises the step's epoch.

The owner of a step is computed when it is claimed and stored nowhere, so a join or a leave rewrites no row. Two
conductors that see different fleets for a moment may pick the same step; one of them gets it. A look at the queue reads
the steps of all conductors in a group, so what it finds is kept for the next claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import steps
from coterie.ledger.work.share import Share
from coterie.ledger.work.steps import CLAIMED, DEADLINE_S, Claim

_PAGE = 500
_KEPT_S = 2.0  # what became ready since the last look waits no longer than this for the next one
_CLOUD = sa.func.coalesce(steps.c.cloud, "").label("cloud")


class Claims:
    """The statements of one conductor for one state of the fleet, built once."""

    def __init__(self, share: Share, owner: str, flows: Iterable[str]) -> None:
        """Unknown flows are left for a newer release."""
        self._share = share
        self._owner = owner
        elsewhere = _CLOUD.not_in(sa.bindparam("b_besides", expanding=True))
        self._ready = sa.and_(steps.c.state == "ready", share.reach(steps), elsewhere)
        able = sa.and_(self._ready, steps.c.not_before <= now(), steps.c.flow.in_(sorted(flows)))
        self._due = sa.select(sa.func.min(steps.c.not_before) - now()).where(self._ready)
        self._later = self._due.where(steps.c.not_before > now())
        self._any = _taking(sa.select(steps.c.id).where(able).limit(sa.bindparam("b_limit")))
        self._look = _looking(able)
        self._these = _taking(sa.select(steps.c.id).where(able, steps.c.id.in_(sa.bindparam("b_ids", expanding=True))))
        self._found: list[Any] = []  # steps of ours that the last look showed, as far as they are not taken
        self._looked_at = 0.0

    def next_due(self, tx: Tx, besides: Sequence[str] = ()) -> float | None:
        """Seconds until the first step in our reach may be claimed (0 or less: now); None when none is ready.

        `besides`: clouds of which no more is taken for now, here and below.
        """
        return tx.execute(self._due, {"b_besides": besides}).scalar()

    def next_later(self, tx: Tx, besides: Sequence[str] = ()) -> float | None:
        """The same for those that rest: what is due already is another's."""
        return tx.execute(self._later, {"b_besides": besides}).scalar()

    def choose(self, tx: Tx, limit: int, besides: Sequence[str] = ()) -> list[int] | None:
        """The first steps that are ours, looked up without a lock; None: whatever is in our reach is ours.

        A step is chosen once for each look: those that could not be taken are found by the next one.
        """
        if self._share.whole:
            return None
        if not self._found or monotonic() - self._looked_at > _KEPT_S:
            self._found, self._looked_at = [], monotonic()
        if not any(row.cloud not in besides for row in self._found):
            self._found += self._find(tx, limit, besides)
        chosen = [row.id for row in self._found if row.cloud not in besides][:limit]
        left = {row.id for row in self._found} - {*chosen}
        self._found = [row for row in self._found if row.id in left]
        return chosen

    def _find(self, tx: Tx, limit: int, besides: Sequence[str]) -> list[Any]:
        _keep_order(tx)
        found: list[Any] = []
        last = 0
        while True:
            page = tx.execute(self._look, {"b_last": last, "b_besides": besides}).all()
            found += [row for row in page if self._share.holds(*row[2:])]
            if len(page) < _PAGE or len(found) >= limit:
                return found
            last = page[-1].id

    def take(self, tx: Tx, limit: int, chosen: Sequence[int] | None, besides: Sequence[str] = ()) -> list[Claim]:
        """Take what was chosen and is still free; without a choice, up to `limit` of what is ready."""
        if chosen == []:
            return []
        if chosen is None:
            _keep_order(tx)
            rows = tx.execute(self._any, {"b_limit": limit, "b_owner": self._owner, "b_besides": besides}).all()
        else:
            rows = tx.execute(self._these, {"b_ids": chosen, "b_owner": self._owner, "b_besides": besides}).all()
        return sorted((Claim(**row._asdict(), owner=self._owner) for row in rows), key=lambda claimed: claimed.id)

    def claim(self, tx: Tx, limit: int) -> list[Claim]:
        """Choose and take in one transaction."""
        return self.take(tx, limit, self.choose(tx, limit))


def _keep_order(tx: Tx) -> None:
    """Read along the index: from statistics that are older than the queue, PostgreSQL would read and sort all of it."""
    if tx.dialect.name == "postgresql":
        tx.execute(_NO_SORT)


_NO_SORT = sa.text("SET LOCAL enable_sort = off")


def _looking(able: sa.ColumnElement[bool]) -> sa.Select[Any]:
    # Steps of no node (groups, images, looks) belong together by cloud: one writer per cloud.
    key = sa.func.coalesce(steps.c.node, steps.c.cloud, "").label("key")
    return (
        sa.select(steps.c.id, _CLOUD, steps.c.conductor_group, steps.c.driver, key, steps.c.flow)
        .where(able, steps.c.id > sa.bindparam("b_last"))
        .order_by(steps.c.id)
        .limit(_PAGE)
    )


def _taking(ready: sa.Select[Any]) -> Any:
    # A CTE: with a plain sub-select PostgreSQL may evaluate the limit more than once and claim too many.
    chosen = ready.order_by(steps.c.id).with_for_update(skip_locked=True).cte("chosen")
    return (
        steps.update()
        .where(steps.c.id.in_(sa.select(chosen.c.id)))
        .values(
            state="running",
            owner=sa.bindparam("b_owner"),
            epoch=steps.c.epoch + 1,
            started_at=sa.func.coalesce(steps.c.started_at, now()),
            deadline=sa.func.coalesce(steps.c.deadline, now() + DEADLINE_S),
        )
        .returning(*CLAIMED)
    )
