"""Tasks, their stages and steps as the API shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.store import Tx
from coterie.ledger.tables import stages, steps, tasks
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when
from coterie.ledger.visibility import visible_task
from coterie.plan.stages import UNLIMITED

UNFINISHED = ("running", "cancelling")
_BRIEF = tuple(
    tasks.c[name] for name in ("id", "kind", "deployment", "state", "requested_by", "events", "created_at", "ended_at")
)
_STEP = tuple(column for column in steps.c if column.name not in ("task", "epoch", "data"))
_STAGE = tuple(column for column in stages.c if column.name != "task")


def page(tx: Tx, part: Slice, *, without: str | None = None, **wanted: str | None) -> Page:
    """Newest first. Filters: deployment, state, kind; `without`: a kind to leave out."""
    query = matching(sa.select(*_BRIEF).where(visible_task()), {tasks.c[name]: value for name, value in wanted.items()})
    if without is not None:
        query = query.where(tasks.c.kind != without)
    found = fetch(tx, query, [tasks.c.id], part, newest_first=True)
    return Page(_view(tx, found.items), found.next)


def one(tx: Tx, task: int) -> Row:
    """A task with its plan, stages and report; why it waits is the caller's to add."""
    mine = sa.and_(tasks.c.id == task, visible_task())
    row = tx.execute(sa.select(*_BRIEF, tasks.c.plan, tasks.c.report).where(mine)).mappings().first()
    if row is None:
        raise NotFound(f"no task {task}", remedy="list them with `coterie tasks`")
    return {**_view(tx, [dict(row)])[0], "stages": _stages(tx, task)}


def state(tx: Tx, task: int) -> str:
    found = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task, visible_task())).scalar()
    if found is None:
        raise NotFound(f"no task {task}", remedy="list them with `coterie tasks`")
    return str(found)


def unfinished(tx: Tx) -> list[Row]:
    query = sa.select(*_BRIEF).where(tasks.c.state.in_(UNFINISHED), visible_task()).order_by(tasks.c.id)
    return _view(tx, [dict(row._mapping) for row in tx.execute(query)])


def step_page(tx: Tx, task: int, part: Slice, state: str | None = None) -> Page:
    query = matching(sa.select(*_STEP).where(steps.c.task == task), {steps.c.state: state})
    found = fetch(tx, query, [steps.c.id], part)
    times = ("not_before", "deadline", "started_at", "ended_at")
    return Page([{**row, **{name: when(row[name]) for name in times}} for row in found.items], found.next)


def _view(tx: Tx, rows: list[Row]) -> list[Row]:
    progress = _progress(tx, [row["id"] for row in rows])
    times = ("created_at", "ended_at")
    return [{**row, "steps": progress[row["id"]], **{name: when(row[name]) for name in times}} for row in rows]


def _progress(tx: Tx, ids: Sequence[int]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = defaultdict(lambda: {"total": 0, "ended": 0, "failed": 0})
    sums = [sa.func.sum(stages.c[name]) for name in ("total", "ended", "failed")]
    query = sa.select(stages.c.task, *sums).where(stages.c.task.in_(ids)).group_by(stages.c.task)
    for task, total, ended, failed in tx.execute(query):
        found[task] = {"total": int(total), "ended": int(ended), "failed": int(failed)}
    return found


def _stages(tx: Tx, task: int) -> list[Row]:
    """A stage is cancelled when the cancel of its task met steps that had not begun; `cancelled_steps` counts them."""
    counted = sa.select(steps.c.stage, sa.func.count()).where(steps.c.task == task, steps.c.state == "cancelled")
    cancelled: dict[int, int] = dict(tx.execute(counted.group_by(steps.c.stage)).all())
    query = sa.select(*_STAGE).where(stages.c.task == task).order_by(stages.c.n)
    found = [{**row._mapping, "cancelled_steps": cancelled.get(row.n, 0)} for row in tx.execute(query)]
    for stage in found:
        stage["max_in_flight"] = _bound(stage["max_in_flight"])
        if stage["cancelled_steps"] and stage["state"] == "done":
            stage["state"] = "cancelled"
    return found


def _bound(max_in_flight: int) -> int | None:
    """How many at once; None: all."""
    return None if max_in_flight >= UNLIMITED else max_in_flight
