"""Events: what happened, numbered within their task in commit order, so that a follower misses none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.ledger import writes
from coterie.ledger.store import Tx
from coterie.ledger.tables import events, tasks


class Event(NamedTuple):
    task: int | None
    kind: str
    subject: str
    body: str
    data: Any = None


def forget_before(tx: Tx, moment: float, most: int) -> int:
    """Drop old events that belong to no task, such as the audit; how many."""
    old = sa.select(events.c.id).where(events.c.task.is_(None), events.c.at < moment).order_by(events.c.id).limit(most)
    return tx.execute(events.delete().where(events.c.id.in_(old))).rowcount


def append(tx: Tx, happened: Sequence[Event], at: float) -> None:
    """Add events. The task's counter is raised in this transaction, so numbers follow the order of commits."""
    if not happened:
        return
    counts = Counter(event.task for event in happened if event.task is not None)
    last = {task: _raise_counter(tx, task, count) for task, count in sorted(counts.items())}
    upcoming = {task: last[task] - counts[task] for task in counts}
    rows = []
    for event in happened:
        n = 0
        if event.task is not None:
            upcoming[event.task] += 1
            n = upcoming[event.task]
        rows.append({**event._asdict(), "n": n, "at": at})
    writes.insert_many(tx, events, rows)


_RAISE = (
    tasks.update()
    .where(tasks.c.id == sa.bindparam("b_task"))
    .values(events=tasks.c.events + sa.bindparam("b_count"))
    .returning(tasks.c.events)
)


def _raise_counter(tx: Tx, task: int, count: int) -> int:
    count_now: int = tx.execute(_RAISE, {"b_task": task, "b_count": count}).scalar_one()
    return count_now
