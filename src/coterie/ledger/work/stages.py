"""Stages of a task: which steps may start now. A stage opens when its needs have ended, and admits a few at a time.

Order is kept per stage, not per step, so that ten thousand nodes cost ten thousand rows and a handful of edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import stages, steps

ENDED = ("done", "failed", "skipped")

# These run with every commit of a task: built once.
_THIS = (stages.c.task == sa.bindparam("b_task"), stages.c.n == sa.bindparam("b_n"))
_COUNT = (
    stages.update()
    .where(*_THIS)
    .values(ended=stages.c.ended + sa.bindparam("b_ended"), failed=stages.c.failed + sa.bindparam("b_failed"))
    .returning(stages)
)
_ADMITTED = stages.update().where(*_THIS).values(admitted=sa.bindparam("b_admitted"))
_ADMIT = (
    steps.update()
    .where(
        steps.c.state == "queued",  # once more, for the row as it is now
        steps.c.id.in_(
            sa.select(steps.c.id)
            .where(
                steps.c.task == sa.bindparam("b_task"),
                steps.c.stage == sa.bindparam("b_n"),
                steps.c.state == "queued",
            )
            .order_by(steps.c.id)
            .limit(sa.bindparam("b_room"))
        ),
    )
    .values(state="ready")
    .returning(steps.c.conductor_group, steps.c.driver, sa.func.coalesce(steps.c.node, steps.c.cloud, ""), steps.c.flow)
)
# The same on PostgreSQL, where a conductor's role sees steps of its own site only, and a stage may have others.
_ADMIT_ALL = sa.text("SELECT * FROM coterie_admit_steps(:b_task, :b_n, :b_room)")
_SKIP_ALL = sa.text("SELECT coterie_skip_steps(:b_task, :b_n)")


class Ready(NamedTuple):
    """A step that was admitted: what its owner follows from."""

    conductor_group: str
    driver: str | None
    key: str
    flow: str


def count(tx: Tx, task: int, ended: Mapping[int, tuple[int, int]], admitted: list[Ready]) -> bool:
    """Account for steps that ended ({stage: (ended, failed)}) and admit others; True if a stage closed.

    Locks the rows of these stages until the end of the transaction, so it comes late in it. After a close, `settle`.
    """
    closed = False
    for n, (count, failed) in sorted(ended.items()):
        counted = {"b_task": task, "b_n": n, "b_ended": count, "b_failed": failed}
        stage = tx.execute(_COUNT, counted).one()
        if stage.failed and stage.stop_on_failure:
            stage = _stop(tx, stage)
        if stage.ended < stage.total:
            admitted += _admit(tx, stage)
            continue
        _close(tx, stage)
        closed = True
    return closed


def lock(tx: Tx, task: int) -> None:
    """Lock all stages of a task, for a transaction that changes the task itself: stages first, then the task."""
    tx.execute(sa.select(stages.c.n).where(stages.c.task == task).order_by(stages.c.n).with_for_update())


def settle(tx: Tx, task: int, admitted: list[Ready]) -> bool:
    """Open or skip the stages whose needs have ended, until nothing moves; True when every stage has ended.

    The task is locked: two commits that close different stages must see each other, or a stage that waits for both
    would never open.
    """
    while True:
        rows = tx.execute(sa.select(stages).where(stages.c.task == task).order_by(stages.c.n)).all()
        states = {row.n: row.state for row in rows}
        blocked = [row for row in rows if row.state == "blocked"]
        moved = [row for row in blocked if _unblock(tx, row, states, admitted)]
        if not moved:
            return all(state in ENDED for state in states.values())


def _unblock(tx: Tx, stage: Any, states: Mapping[int, str], admitted: list[Ready]) -> bool:
    needs: list[list[Any]] = stage.needs
    if any(states[n] in ("failed", "skipped") and how == "done" for n, how in needs):
        _skip(tx, stage, "skipped")
        return True
    if any(states[n] not in ENDED for n, _ in needs):
        return False
    if stage.total == 0:
        _set(tx, stage, state="done")
        return True
    _set(tx, stage, state="open")
    admitted += _admit(tx, stage)
    return True


def _admit(tx: Tx, stage: Any) -> list[Ready]:
    room = stage.max_in_flight - (stage.admitted - stage.ended)
    if room <= 0 or stage.admitted >= stage.total:
        return []
    admit = _ADMIT_ALL if tx.dialect.name == "postgresql" else _ADMIT
    admitted = [Ready(*row) for row in tx.execute(admit, {"b_task": stage.task, "b_n": stage.n, "b_room": room})]
    tx.execute(_ADMITTED, {"b_task": stage.task, "b_n": stage.n, "b_admitted": stage.admitted + len(admitted)})
    return admitted


def _stop(tx: Tx, stage: Any) -> Any:
    """A failure that stops the stage: what was not admitted yet is skipped; what runs may end."""
    skipped = _skip_queued(tx, stage)
    changed = {"admitted": stage.admitted + skipped, "ended": stage.ended + skipped}
    return tx.execute(_update(stage).values(**changed).returning(stages)).one()


def _close(tx: Tx, stage: Any) -> None:
    _set(tx, stage, state="failed" if stage.failed else "done")


def _skip(tx: Tx, stage: Any, state: str) -> None:
    _skip_queued(tx, stage)
    _set(tx, stage, state=state, ended=stage.total)


def _skip_queued(tx: Tx, stage: Any) -> int:
    if tx.dialect.name == "postgresql":
        count_all: int = tx.execute(_SKIP_ALL, {"b_task": stage.task, "b_n": stage.n}).scalar_one()
        return count_all
    skipped = steps.update().where(steps.c.state == "queued", steps.c.id.in_(_queued(stage))).values(state="skipped")
    return tx.execute(skipped).rowcount


def _queued(stage: Any) -> sa.Select[tuple[int]]:
    return sa.select(steps.c.id).where(steps.c.task == stage.task, steps.c.stage == stage.n, steps.c.state == "queued")


def _set(tx: Tx, stage: Any, **values: Any) -> None:
    tx.execute(_update(stage).values(**values))


def _update(stage: Any) -> sa.Update:
    return stages.update().where(stages.c.task == stage.task, stages.c.n == stage.n)
