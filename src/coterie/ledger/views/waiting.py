"""Why steps of a task wait, computed on request and never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import steps
from coterie.ledger.work import conductors

_MOST = 20


def reasons(tx: Tx, task: int) -> list[str]:
    """In words, most common first."""
    return [*_unserved(tx, task), *_resting(tx, task)][:_MOST]


def _unserved(tx: Tx, task: int) -> Iterator[str]:
    ready = (
        sa.select(steps.c.conductor_group, steps.c.driver, steps.c.flow, sa.func.count())
        .where(steps.c.task == task, steps.c.state == "ready")
        .group_by(steps.c.conductor_group, steps.c.driver, steps.c.flow)
    )
    fleet = conductors.living(tx)
    waiting: Counter[str] = Counter()
    for group, driver, flow, count in tx.execute(ready):
        if not fleet.table(group, driver).members:
            waiting[fleet.refusal(group, driver).what] += count
        elif not fleet.table(group, driver, flow).members:
            waiting[f"no live conductor is of a release that knows {flow}"] += count
    yield from (f"{count} ready: {why}" for why, count in waiting.most_common())


def _resting(tx: Tx, task: int) -> Iterator[str]:
    query = (
        sa.select(steps.c.subject, steps.c.error, (steps.c.not_before - now()).label("left"))
        .where(steps.c.task == task, steps.c.state == "ready", steps.c.not_before > now())
        .order_by(steps.c.not_before)
        .limit(_MOST)
    )
    for subject, error, left in tx.execute(query):
        why = (error or {}).get("why") or (error or {}).get("what") or "it rests"
        yield f"{subject}: {why}; looks again in {left:.0f} s"
