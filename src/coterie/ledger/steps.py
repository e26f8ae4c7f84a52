"""Steps: claimed by lease, ended only by the claim that still holds. The most delicate statements of the ledger.

Every write of a result requires id, owner, epoch and state `running`; a claim or a hand-over raises the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from coterie.ledger import events, stages, tasks, writes
from coterie.ledger.events import Event
from coterie.ledger.store import Tx, now, time
from coterie.ledger.tables import conductors, steps
from coterie.ledger.writes import NOW, After, Write


@dataclass(slots=True)
class Claim:
    """A step that `owner` may run as long as its lease holds."""

    id: int
    task: int
    stage: int
    flow: str
    label: str
    subject: str
    node: str | None
    cloud: str | None
    epoch: int
    attempt: int
    time_left: float | None  # seconds until the deadline, when it was claimed
    data: dict[str, Any]
    owner: str

    @property
    def key(self) -> tuple[int, int]:
        """No two claims have the same, not even of one step: every claim and every hand-over raises the epoch."""
        return self.id, self.epoch


@dataclass(slots=True)
class Outcome:
    """What one label of a step came to: the rows it changes, what happened, and how the step goes on."""

    claim: Claim
    move: Literal["next", "wait", "done", "fail"]
    label: str
    data: dict[str, Any]
    attempt: int = 0
    delay_s: float = 0.0
    error: Any = None
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


_DEADLINE_S = 4 * 3600.0  # from its first claim: what waits for its turn is not late

_CLAIMED = (
    steps.c.id,
    steps.c.task,
    steps.c.stage,
    steps.c.flow,
    steps.c.label,
    steps.c.subject,
    steps.c.node,
    steps.c.cloud,
    steps.c.epoch,
    steps.c.attempt,
    (steps.c.deadline - now()).label("time_left"),
    steps.c.data,
)


_HELD = (
    sa.select(steps.c.id, steps.c.owner, steps.c.epoch)
    .where(steps.c.id.in_(sa.bindparam("b_ids", expanding=True)), steps.c.state == "running")
    .order_by(steps.c.id)
    .with_for_update()
)


def claim(
    tx: Tx, owner: str, limit: int, *, flows: Iterable[str], group: str | None, drivers: Iterable[str]
) -> list[Claim]:
    """Take up to `limit` ready steps. Unknown flows are left for a newer release; group None takes every group."""
    ready = (
        sa.select(steps.c.id)
        .where(
            steps.c.state == "ready",
            steps.c.not_before <= now(),
            steps.c.flow.in_(sorted(flows)),
            sa.or_(steps.c.driver.is_(None), steps.c.driver.in_(sorted(drivers))),
        )
        .order_by(steps.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if group is not None:
        ready = ready.where(steps.c.conductor_group == group)
    # A CTE: with a plain sub-select PostgreSQL may evaluate the limit more than once and claim too many.
    chosen = ready.cte("chosen")
    taken = (
        steps.update()
        .where(steps.c.id.in_(sa.select(chosen.c.id)))
        .values(
            state="running",
            owner=owner,
            epoch=steps.c.epoch + 1,
            started_at=sa.func.coalesce(steps.c.started_at, now()),
            deadline=sa.func.coalesce(steps.c.deadline, now() + _DEADLINE_S),
        )
        .returning(*_CLAIMED)
    )
    rows = tx.execute(taken).all()
    return sorted((Claim(**row._asdict(), owner=owner) for row in rows), key=lambda claimed: claimed.id)


def next_due(tx: Tx) -> float | None:
    """Seconds until the first ready step may be claimed (0 or less: now); None when none is ready."""
    return tx.execute(_NEXT_DUE).scalar()


_NEXT_DUE = sa.select(sa.func.min(steps.c.not_before) - now()).where(steps.c.state == "ready")


def commit(tx: Tx, outcomes: Sequence[Outcome]) -> set[tuple[int, int]]:
    """Apply the outcomes whose claims still hold; the keys of those. The others leave no trace.

    A late outcome may stand beside one of the claim that took its step over: only the latter counts.
    """
    stopping = tasks.hold(tx, {outcome.claim.task for outcome in outcomes})
    held = _held(tx, outcomes)
    valid = [outcome for outcome in outcomes if (*outcome.claim.key, outcome.claim.owner) in held]
    if not valid:
        return set()
    at = time(tx)
    changed: list[Write] = []
    happened: list[Event] = []
    for outcome in valid:
        changed += outcome.writes
        happened += outcome.events
        changed.append(_step_write(outcome, stopping))
    writes.apply(tx, changed, at)
    events.append(tx, happened, at)
    _advance(tx, valid, stopping)
    return {outcome.claim.key for outcome in valid}


def _held(tx: Tx, outcomes: Sequence[Outcome]) -> set[tuple[int, int, str]]:
    """Who holds the steps of these outcomes now: id, epoch, owner."""
    rows = tx.execute(_HELD, {"b_ids": sorted({outcome.claim.id for outcome in outcomes})})
    return {(row.id, row.epoch, row.owner) for row in rows}


def _step_write(outcome: Outcome, stopping: set[int]) -> Write:
    key = {"id": outcome.claim.id}
    if outcome.move == "next":
        return writes.update("steps", key, label=outcome.label, data=outcome.data, attempt=0)
    if outcome.move == "wait" and outcome.claim.task not in stopping:
        return writes.update(
            "steps",
            key,
            state="ready",
            owner=None,
            label=outcome.label,
            data=outcome.data,
            attempt=outcome.attempt,
            not_before=After(outcome.delay_s),
            error=outcome.error,
        )
    state = {"done": "done", "fail": "failed", "wait": "cancelled"}[outcome.move]
    return writes.update(
        "steps", key, state=state, owner=None, label=outcome.label, data=outcome.data, error=outcome.error, ended_at=NOW
    )


def _advance(tx: Tx, valid: Sequence[Outcome], stopping: set[int]) -> None:
    ended: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for outcome in valid:
        task, stage = outcome.claim.task, outcome.claim.stage
        if outcome.move == "next" or (outcome.move == "wait" and task not in stopping):
            continue
        count, failed = ended[task].get(stage, (0, 0))
        ended[task][stage] = (count + 1, failed + (outcome.move == "fail"))
    for task in sorted(ended):
        if stages.advance(tx, task, ended[task]):
            tasks.end(tx, task)


def last_wish(tx: Tx, node: str) -> dict[str, Any] | None:
    """What the last step that made or changed this node was told; None when none is remembered."""
    query = sa.select(steps.c.data).where(steps.c.node == node).order_by(steps.c.id.desc()).limit(20)
    return next((data for data in tx.execute(query).scalars() if data and "wish" in data), None)


def hand_back(tx: Tx, claim: Claim, rest_s: float = 0.0) -> bool:
    """Return a running step to the queue under a new epoch, so that a late result of this claim is refused."""
    returned = (
        steps.update()
        .where(
            steps.c.id == claim.id,
            steps.c.owner == claim.owner,
            steps.c.epoch == claim.epoch,
            steps.c.state == "running",
        )
        .values(state="ready", owner=None, epoch=steps.c.epoch + 1, not_before=now() + rest_s)
    )
    return tx.execute(returned).rowcount == 1


def hand_back_all(tx: Tx, owner: str) -> list[int]:
    """Return every running step of this owner; the tasks they belong to.

    A task that is being cancelled takes them back too: what the owner left in doubt is settled first, and the step
    ends as cancelled at its next rest.
    """
    return _return(tx, steps.c.owner == owner)


def hand_back_orphans(tx: Tx) -> list[int]:
    """Return every running step whose owner is no living conductor."""
    alive = sa.select(conductors.c.name + "#" + conductors.c.incarnation)
    return _return(tx, steps.c.owner.not_in(alive))


def _return(tx: Tx, condition: sa.ColumnElement[bool]) -> list[int]:
    returned = (
        steps.update()
        .where(steps.c.state == "running", condition)
        .values(state="ready", owner=None, epoch=steps.c.epoch + 1)
        .returning(steps.c.task)
    )
    return sorted(set(tx.execute(returned).scalars()))
