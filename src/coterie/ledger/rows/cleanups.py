"""Runs of cleanup: their surveys, what they found, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from coterie.cpi.contract import Kind
from coterie.errors import Conflict, NotFound
from coterie.ledger.store import Tx, insert_or_update, now, time
from coterie.ledger.tables import cleanups, directors, findings, hooks, surveys, tallies, tasks
from coterie.ledger.writes import NOW, Write, delete, insert, update

KINDS_OF_TASK = ("survey", "sweep")


@dataclass(frozen=True, slots=True)
class CleanupRow:
    id: int
    options: dict[str, Any]
    requested_by: str | None
    survey_task: int | None
    sweep_task: int | None
    created_at: float
    notified: str
    notices: int
    received: dict[str, str] | None
    planned: int | None


@dataclass(frozen=True, slots=True)
class SurveyRow:
    """The survey of one kind in one cloud. `counts`: how many objects have each verdict."""

    cloud: str
    kind: str
    state: str
    reason: str | None
    calls: int
    pages: int
    counts: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class FindingRow:
    """What a survey found out about one object, or about a row without one. `id` 0: not stored yet."""

    cleanup: int
    cloud: str
    kind: Kind
    cid: str | None
    name: str | None
    az: str | None
    created_at: float | None
    etag: str | None
    intent: str | None
    deployment: str | None
    node: str | None
    ref: str | None
    ledger_state: str | None
    verdict: str
    action: str
    reason: str
    evidence: list[str]
    used_by: list[str]
    since: float | None
    doomed: bool
    id: int = 0
    outcome: str | None = None


_ROW = tuple(cleanups.c[name] for name in CleanupRow.__slots__)
_SURVEY = tuple(surveys.c[name] for name in SurveyRow.__slots__)
_FINDING = tuple(findings.c[name] for name in FindingRow.__slots__)


def refuse_second(tx: Tx) -> None:
    """One cleanup at a time: the Director's row is locked, and a task that has not ended is the one at work."""
    tx.execute(sa.select(directors.c.uuid).with_for_update()).all()
    query = sa.select(tasks.c.id, tasks.c.kind).where(
        tasks.c.kind.in_(KINDS_OF_TASK), tasks.c.state.in_(("running", "cancelling"))
    )
    running = tx.execute(query.limit(1)).first()
    if running is not None:
        raise Conflict(
            f"a cleanup is at work already: task {running.id} ({running.kind})",
            remedy=f"follow it with `coterie tasks watch {running.id}`, or end it with `coterie tasks cancel`",
            details={"task_id": running.id},
        )


def add(tx: Tx, options: dict[str, Any], by: str | None) -> int:
    made = cleanups.insert().values(options=options, requested_by=by, created_at=now()).returning(cleanups.c.id)
    number: int = tx.execute(made).scalar_one()
    return number


def set_survey_task(tx: Tx, cleanup: int, task: int) -> None:
    tx.execute(cleanups.update().where(cleanups.c.id == cleanup).values(survey_task=task))


def set_sweep_task(tx: Tx, cleanup: int, task: int) -> None:
    tx.execute(cleanups.update().where(cleanups.c.id == cleanup).values(sweep_task=task))


def get(tx: Tx, cleanup: int) -> CleanupRow:
    row = tx.execute(sa.select(*_ROW).where(cleanups.c.id == cleanup)).first()
    if row is None:
        raise NotFound(f"there is no cleanup {cleanup}", remedy="see `coterie cleanup status`; old ones are forgotten")
    return CleanupRow(*row)


def last(tx: Tx, by: str | None = None) -> CleanupRow | None:
    query = sa.select(*_ROW).order_by(cleanups.c.id.desc()).limit(1)
    row = tx.execute(query if by is None else query.where(cleanups.c.requested_by == by)).first()
    return CleanupRow(*row) if row else None


def list_unannounced(tx: Tx, tries: int) -> list[CleanupRow]:
    """Those whose last state the hook has not received, and for which tries are left."""
    due = sa.or_(
        (cleanups.c.notified == "") & cleanups.c.survey_task.is_not(None),
        (cleanups.c.notified != "swept") & cleanups.c.sweep_task.is_not(None),
    )
    query = sa.select(*_ROW).where(due, cleanups.c.notices < tries).order_by(cleanups.c.id)
    return [CleanupRow(*row) for row in tx.execute(query)]


def count_failed_notice(tx: Tx, cleanup: int) -> None:
    tx.execute(cleanups.update().where(cleanups.c.id == cleanup).values(notices=cleanups.c.notices + 1))


def record_notice(tx: Tx, cleanup: int, state: str) -> None:
    """All hooks have received that the run is in this state."""
    tx.execute(cleanups.update().where(cleanups.c.id == cleanup).values(notified=state, notices=0))


def record_received(tx: Tx, run: CleanupRow, hook: str, state: str) -> None:
    """This hook has received that the run is in this state; another one may have failed."""
    tx.execute(cleanups.update().where(cleanups.c.id == run.id).values(received={**(run.received or {}), hook: state}))


def record_planned(tx: Tx, cleanup: int, count: int) -> None:
    """How many items the plan has; the first number stays."""
    unset = sa.and_(cleanups.c.id == cleanup, cleanups.c.planned.is_(None))
    tx.execute(cleanups.update().where(unset).values(planned=count))


def hook_since(tx: Tx, hook: str, digest: str) -> float:
    """Since when this hook is configured as it is: from now on, if it was not so before."""
    row = tx.execute(sa.select(hooks.c.digest, hooks.c.since).where(hooks.c.name == hook)).first()
    if row is not None and row.digest == digest:
        return float(row.since)
    since = time(tx)
    insert_or_update(tx, hooks, {"name": hook}, {"digest": digest, "since": since})
    return since


# -- surveys and findings --


def start_survey(tx: Tx, cleanup: int, cloud: str, kind: str, obstacle: str | None = None) -> None:
    """`obstacle`: why this kind is not surveyed."""
    state = {"state": "stopped", "reason": obstacle, "at": now()} if obstacle else {"state": "listing"}
    tx.execute(surveys.insert().values(cleanup=cleanup, cloud=cloud, kind=kind, **state))


def end_survey(
    cleanup: int,
    cloud: str,
    kind: str,
    state: str,
    *,
    reason: str | None,
    counts: dict[str, int],
    calls: int,
    pages: int,
) -> list[Write]:
    """Record how the survey of one kind in one cloud ended; which objects it saw is of no use any more."""
    key = {"cleanup": cleanup, "cloud": cloud, "kind": kind}
    values = {"state": state, "at": NOW, "reason": reason, "counts": counts, "calls": calls, "pages": pages}
    return [update("surveys", key, **values), delete("sightings", key)]


def record_sighting(cleanup: int, cloud: str, kind: str, intent: str) -> Write:
    """The survey saw the object of this intent."""
    return insert("sightings", cleanup=cleanup, cloud=cloud, kind=kind, intent=intent)


def add_finding(new: FindingRow) -> Write:
    return insert("findings", **{name: getattr(new, name) for name in FindingRow.__slots__ if name != "id"})


def all_surveys(tx: Tx, cleanup: int) -> list[SurveyRow]:
    query = sa.select(*_SURVEY).where(surveys.c.cleanup == cleanup).order_by(surveys.c.cloud, surveys.c.kind)
    return [SurveyRow(*row) for row in tx.execute(query)]


def all_findings(tx: Tx, cleanup: int) -> list[FindingRow]:
    query = sa.select(*_FINDING).where(findings.c.cleanup == cleanup).order_by(findings.c.id)
    return [FindingRow(*row) for row in tx.execute(query)]


def record_outcome(finding: int, outcome: str, details: Any = None) -> Write:
    return update("findings", {"id": finding}, outcome=outcome, told=details, ended_at=NOW)


def forget_old(tx: Tx, keep: int) -> None:
    """Drop all but the newest runs; how much they removed stays counted."""
    old = list(tx.execute(sa.select(cleanups.c.id).order_by(cleanups.c.id.desc()).offset(keep)).scalars())
    if not old:
        return
    mine = findings.c.cleanup.in_(old)
    removed = sa.select(findings.c.cloud, findings.c.kind, sa.func.count()).where(mine, findings.c.outcome == "deleted")
    for cloud, kind, count in tx.execute(removed.group_by(findings.c.cloud, findings.c.kind)).all():
        _count(tx, cloud, kind, count)
    for table, column in ((findings, findings.c.cleanup), (surveys, surveys.c.cleanup), (cleanups, cleanups.c.id)):
        tx.execute(table.delete().where(column.in_(old)))


def _count(tx: Tx, cloud: str, kind: str, count: int) -> None:
    here = (tallies.c.cloud == cloud, tallies.c.kind == kind)
    raised = tx.execute(tallies.update().where(*here).values(cleaned=tallies.c.cleaned + count))
    if raised.rowcount == 0:
        tx.execute(tallies.insert().values(cloud=cloud, kind=kind, cleaned=count))


def task_end(tx: Tx, task: int | None) -> tuple[str | None, float]:
    """State of a task, and when it ended (now, if it has not)."""
    row = tx.execute(sa.select(tasks.c.state, tasks.c.ended_at).where(tasks.c.id == task)).first()
    return (row.state, row.ended_at or time(tx)) if row else (None, time(tx))
