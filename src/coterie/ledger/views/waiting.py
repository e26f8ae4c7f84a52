"""Why steps of a task wait, computed when asked and never stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from coterie.ledger.store import Tx, now
from coterie.ledger.tables import conductors, steps

_MOST = 20


def reasons(tx: Tx, task: int, *, any_group: bool) -> list[str]:
    """In words, most common first. `any_group`: a conductor of this fleet serves every group."""
    return [*_unserved(tx, task, any_group), *_resting(tx, task)][:_MOST]


def _unserved(tx: Tx, task: int, any_group: bool) -> Iterator[str]:
    ready = (
        sa.select(steps.c.conductor_group, steps.c.driver, sa.func.count())
        .where(steps.c.task == task, steps.c.state == "ready")
        .group_by(steps.c.conductor_group, steps.c.driver)
    )
    fleet = tx.execute(sa.select(conductors.c.conductor_group, conductors.c.drivers)).all()
    for group, driver, count in tx.execute(ready):
        if not any(_serves(row, group, driver, any_group) for row in fleet):
            where = f"in group {group!r}" if group else "without a group"
            yield f"{count} ready: no live conductor {where} for driver {driver}"


def _serves(conductor: Any, group: str, driver: str | None, any_group: bool) -> bool:
    mine = any_group or conductor.conductor_group.lower() == group.lower()
    return mine and (driver is None or driver in (conductor.drivers or ()))


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
