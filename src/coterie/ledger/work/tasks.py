"""Tasks: made with all their stages and steps in one transaction, cancelled by a flag, ended by their last stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from coterie.ledger.rows import deployments, director_keys, events
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Tx, now, signer_of, tell, time
from coterie.ledger.tables import cleanups, steps, tasks
from coterie.ledger.tables import events as events_table
from coterie.ledger.tables import stages as stages_table
from coterie.ledger.work import stages


@dataclass(frozen=True, slots=True)
class NewStep:
    flow: str
    label: str
    subject: str
    data: dict[str, Any]
    node: str | None = None
    cloud: str | None = None
    driver: str | None = None
    conductor_group: str = ""
    signed: Sequence[str] = ()  # keys of `data` that say what it is to do


@dataclass(frozen=True, slots=True)
class NewStage:
    name: str
    steps: Sequence[NewStep]
    needs: Sequence[tuple[int, str]] = ()  # (stage, "done" | "ended")
    max_in_flight: int = 1_000_000
    stop_on_failure: bool = False


@dataclass(frozen=True, slots=True)
class NewTask:
    kind: str
    deployment: str | None
    stages: Sequence[NewStage]
    plan: Any = None
    requested_by: str | None = None
    opening: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def create(tx: Tx, new: NewTask) -> int:
    at = time(tx)
    made = tasks.insert().values(
        kind=new.kind,
        deployment=new.deployment,
        state="running",
        plan=new.plan,
        requested_by=new.requested_by,
        created_at=at,
    )
    task: int = tx.execute(made.returning(tasks.c.id)).scalar_one()
    for n, stage in enumerate(new.stages):
        _create_stage(tx, task, n, stage, at)
    events.append(tx, [Event(task, "task.started", new.deployment or new.kind, new.opening, new.details)], at)
    _tell(tx, task, new.kind, new.deployment, f"is accepted, by {new.requested_by or 'the Director'}: {new.opening}")
    if stages.settle(tx, task, []):
        end(tx, task)
    return task


def _create_stage(tx: Tx, task: int, n: int, stage: NewStage, at: float) -> None:
    tx.execute(
        stages_table.insert().values(
            task=task,
            n=n,
            name=stage.name,
            state="blocked",
            needs=[list(need) for need in stage.needs],
            total=len(stage.steps),
            max_in_flight=stage.max_in_flight,
            stop_on_failure=stage.stop_on_failure,
        )
    )
    if not stage.steps:
        return
    rows: list[dict[str, Any]] = [
        {
            "task": task,
            "stage": n,
            "flow": step.flow,
            "label": step.label,
            "subject": step.subject,
            "node": step.node,
            "cloud": step.cloud,
            "driver": step.driver,
            "conductor_group": step.conductor_group,
            "state": "queued",
            "not_before": at,
            "data": step.data,
        }
        for step in stage.steps
    ]
    signer = signer_of(tx)
    if signer is not None:
        for row, step, number in zip(rows, stage.steps, _reserve_ids(tx, len(rows)), strict=True):
            row["id"] = number
            row["signature"] = director_keys.sign_step(signer, row, step.signed)
    tx.execute(steps.insert(), rows)


def _reserve_ids(tx: Tx, count: int) -> Sequence[int]:
    """Ids of steps before they are stored: a signature holds the id."""
    if tx.dialect.name == "postgresql":
        series = sa.text("SELECT nextval('steps_id_seq') FROM generate_series(1, :count)")
        return tx.execute(series, {"count": count}).scalars().all()
    last: int = tx.execute(sa.select(sa.func.coalesce(sa.func.max(steps.c.id), 0))).scalar_one()
    return range(last + 1, last + 1 + count)


def lock(tx: Tx, task: int) -> None:
    """Lock the row of the task; the transaction that locks any of its stages has locked those before."""
    tx.execute(sa.select(tasks.c.id).where(tasks.c.id == task).with_for_update())


def cancel(tx: Tx, task: int) -> bool:
    """No step of the task starts any more; what runs ends at its next rest. False if it had ended already."""
    if tx.dialect.name == "postgresql":
        tx.execute(sa.select(sa.func.pg_advisory_xact_lock(*_cancel_key(task))))
    stages.lock(tx, task)
    flagged = tasks.update().where(tasks.c.id == task, tasks.c.state == "running").values(state="cancelling")
    if tx.execute(flagged).rowcount == 0:
        return False
    events.append(
        tx, [Event(task, "task.cancelling", "", "cancel was asked for; running steps finish first")], time(tx)
    )
    ended: dict[int, tuple[int, int]] = {}
    stopped = (
        steps.update()
        .where(steps.c.task == task, steps.c.state.in_(("queued", "ready")))
        .values(state="cancelled", ended_at=now())
        .returning(steps.c.stage)
    )
    for stage in tx.execute(stopped).scalars():
        ended[stage] = (ended.get(stage, (0, 0))[0] + 1, 0)
    if stages.count(tx, task, ended, []) and stages.settle(tx, task, []):
        end(tx, task)
    return True


def delay_cancel(tx: Tx, ids: Iterable[int]) -> None:
    """No cancel of these tasks goes on until this transaction has ended, and one that has begun is waited for.

    Else a step that rests at that moment would be missed: the cancel sees it running, its commit sees no cancel.
    It is the first lock of both transactions, and commits share it.
    """
    if tx.dialect.name == "postgresql":
        for task in sorted(ids):
            tx.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(*_cancel_key(task))))


def _cancel_key(task: int) -> tuple[int, int]:
    return _CANCEL, task & 0x7FFF_FFFF


_CANCEL = 0x63616E63  # no other lock has this first half


def end(tx: Tx, task: int) -> None:
    """End a task whose stages have all ended: store a report, and an event."""
    query = sa.select(tasks.c.kind, tasks.c.deployment, tasks.c.state).where(tasks.c.id == task).with_for_update()
    row = tx.execute(query).one()
    if row.state not in ("running", "cancelling"):
        return
    counts = _count_steps(tx, task)
    state = _end_state(row.state, counts)
    if row.kind == "delete" and state == "done":
        deployments.forget_deleted(tx, task, row.deployment)
    report = {"steps": counts, "failures": _failures(tx, task)}
    tx.execute(tasks.update().where(tasks.c.id == task).values(state=state, ended_at=now(), report=report))
    events.append(tx, [Event(task, f"task.{state}", row.deployment or row.kind, _sum_up(counts), report)], time(tx))
    _tell(tx, task, row.kind, row.deployment, f"is {state}: {_sum_up(counts)}")


def _tell(tx: Tx, task: int, kind: str, deployment: str | None, words: str) -> None:
    if kind != "look":
        tell(tx, f"task {task} ({kind}{f' {deployment}' if deployment else ''}) {words}")


def _count_steps(tx: Tx, task: int) -> dict[str, int]:
    """Of all sites; on PostgreSQL a conductor's role sees those of its own."""
    if tx.dialect.name == "postgresql":
        return dict(tx.execute(sa.text("SELECT * FROM coterie_count_steps(:task)"), {"task": task}).all())
    counted = sa.select(steps.c.state, sa.func.count()).where(steps.c.task == task).group_by(steps.c.state)
    return dict(tx.execute(counted).all())


def _end_state(state: str, counts: Mapping[str, int]) -> str:
    if counts.keys() <= {"done"}:
        return "done"  # a cancel that came too late has changed nothing
    return "cancelled" if state == "cancelling" else "failed" if counts.get("failed") else "done"


def unfinished(tx: Tx) -> list[int]:
    query = sa.select(tasks.c.id).where(tasks.c.state.in_(("running", "cancelling"))).order_by(tasks.c.id)
    return list(tx.execute(query).scalars())


def _failures(tx: Tx, task: int) -> list[dict[str, Any]]:
    failed: sa.Executable = (
        sa.select(steps.c.subject, steps.c.flow, steps.c.label, steps.c.error)
        .where(steps.c.task == task, steps.c.state == "failed")
        .order_by(steps.c.id)
        .limit(100)
    )
    if tx.dialect.name == "postgresql":  # of all sites, as above
        failed = sa.text("SELECT * FROM coterie_failed_steps(:task)").bindparams(task=task)
    return [{"subject": s, "flow": f, "label": label, "error": e} for s, f, label, e in tx.execute(failed)]


def _sum_up(counts: dict[str, int]) -> str:
    order = ("done", "failed", "skipped", "cancelled")
    return ", ".join(f"{counts[state]} {state}" for state in order if counts.get(state)) or "nothing to do"


def exists(tx: Tx, task: int) -> bool:
    return tx.execute(sa.select(tasks.c.id).where(tasks.c.id == task)).first() is not None


def running(tx: Tx, kind: str) -> bool:
    query = sa.select(tasks.c.id).where(tasks.c.kind == kind, tasks.c.state.in_(("running", "cancelling")))
    return tx.execute(query.limit(1)).first() is not None


_ENDED = tasks.c.state.in_(("done", "failed", "cancelled"))


def forget_old(tx: Tx, kind: str, keep: int) -> None:
    """Drop all but the newest ended tasks of a kind that repeats for ever, and all that belongs to them."""
    old = sa.select(tasks.c.id).where(tasks.c.kind == kind, _ENDED).order_by(tasks.c.id.desc()).offset(keep)
    _forget(tx, list(tx.execute(old).scalars()))


def forget_before(tx: Tx, moment: float, most: int) -> int:
    """Drop tasks that ended before this moment; how many. Those of a cleanup go with it, not before."""
    kept = sa.exists().where(sa.or_(cleanups.c.survey_task == tasks.c.id, cleanups.c.sweep_task == tasks.c.id))
    old = sa.select(tasks.c.id).where(_ENDED, tasks.c.ended_at < moment, ~kept).order_by(tasks.c.id).limit(most)
    ids = list(tx.execute(old).scalars())
    _forget(tx, ids)
    return len(ids)


def _forget(tx: Tx, ids: list[int]) -> None:
    for table in (steps, stages_table, events_table):
        tx.execute(table.delete().where(table.c.task.in_(ids)))
    tx.execute(tasks.delete().where(tasks.c.id.in_(ids)))
