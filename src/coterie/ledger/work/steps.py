"""Steps: ended only by the claim that still holds. The most delicate statements of the ledger.

Every write of a result requires id, owner, epoch and state `running`; a claim or a hand-over raises the epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from time import monotonic
from typing import Any, Literal

import sqlalchemy as sa

from coterie.ledger import writes
from coterie.ledger.rows import director_keys, events, objects
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Tx, now, time
from coterie.ledger.tables import conductors, nodes, steps
from coterie.ledger.tables import tasks as tasks_table
from coterie.ledger.work import stages, tasks
from coterie.ledger.work.stages import Ready
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
    driver: str | None = None
    conductor_group: str = ""
    signature: dict[str, Any] | None = None
    checked: bool = field(default=False, compare=False)  # the signature was found right
    claimed_at: float = field(default_factory=monotonic, compare=False)  # by this process's clock

    @property
    def key(self) -> tuple[int, int]:
        """No two claims have the same, not even of one step: every claim and every hand-over raises the epoch."""
        return self.id, self.epoch


@dataclass(slots=True)
class Outcome:
    """What one label of a step came to: the rows it changes, what happened, and how the step goes on."""

    claim: Claim
    move: Literal["next", "wait", "done", "skip", "fail"]
    label: str
    data: dict[str, Any]
    attempt: int = 0
    delay_s: float = 0.0
    error: Any = None
    writes: list[Write] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


DEADLINE_S = 4 * 3600.0  # from its first claim: a step that waits to be claimed is not late

CLAIMED = (  # what a claim is made of
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
    steps.c.driver,
    steps.c.conductor_group,
    steps.c.signature,
)


_HELD = (
    sa.select(steps.c.id, steps.c.owner, steps.c.epoch, steps.c.conductor_group, tasks_table.c.state, now().label("at"))
    .join(tasks_table, tasks_table.c.id == steps.c.task)
    .where(steps.c.id.in_(sa.bindparam("b_ids", expanding=True)), steps.c.state == "running")
    .order_by(steps.c.id)
    .with_for_update(of=steps)
)


def commit(tx: Tx, outcomes: Sequence[Outcome], admitted: list[Ready] | None = None) -> set[tuple[int, int]]:
    """Apply the outcomes whose claims still hold; the keys of those. Of the others only arrivals are noted.

    Two outcomes of one step may be here: a late one, and one of the claim that took the step over. The second counts.
    `admitted` gets the steps that may be claimed from now on, or after their rest: the group or the ring may have
    changed since they were claimed, and their next owner has to learn how long it may wait.

    All commits of a task meet at its stages and at its own row, so these are locked last: first stages, then the task.
    """
    tasks.delay_cancel(tx, {outcome.claim.task for outcome in outcomes if outcome.move == "wait"})
    rows = tx.execute(_HELD, {"b_ids": _pad(sorted({outcome.claim.id for outcome in outcomes}))}).all()
    held = {(row.id, row.epoch, row.owner): row for row in rows}
    valid = [outcome for outcome in outcomes if (*outcome.claim.key, outcome.claim.owner) in held]
    if len(valid) < len(outcomes):
        note_arrivals(tx, [outcome for outcome in outcomes if (*outcome.claim.key, outcome.claim.owner) not in held])
    if not valid:
        return set()
    at = max(row.at for row in rows)
    stopping = {one.claim.task for one in valid if held[(*one.claim.key, one.claim.owner)].state == "cancelling"}
    admitted = [] if admitted is None else admitted
    changed: list[Write] = []
    happened: list[Event] = []
    for outcome in valid:
        changed += outcome.writes
        happened += outcome.events
        changed.append(_step_write(outcome, stopping))
        claim = outcome.claim
        if outcome.move == "wait" and claim.task not in stopping:
            group = held[(*claim.key, claim.owner)].conductor_group
            admitted.append(Ready(group, claim.driver, claim.node or claim.cloud or "", claim.flow))
    writes.apply(tx, changed, at)
    _advance(tx, valid, stopping, happened, at, admitted)
    return {outcome.claim.key for outcome in valid}


def _pad(ids: Sequence[int]) -> list[int]:
    """The same ids, the last one repeated up to a power of two: each length is a statement of its own, which SQLAlchemy
    compiles and PostgreSQL plans for itself."""
    return [*ids, *repeat(ids[-1], (1 << (len(ids) - 1).bit_length()) - len(ids))]


def note_arrivals(tx: Tx, refused: Sequence[Outcome]) -> None:
    """Note the ids of objects that were created under claims which had been lost by then.

    Another claim may have given the intent up already; then only a survey of the cloud would show the object.
    """
    for outcome in refused:
        claim = outcome.claim
        for write in outcome.writes:
            cid = write.values.get("cid")
            if write.table != "objects" or write.values.get("state") != "live" or cid is None:
                continue
            if objects.note_arrival(tx, write.key["intent"], cid):
                said = f"{cid} was created after its creation had been given up; {LATE_REMEDY}"
                late = Event(claim.task, "object.late", claim.subject, said, {"cid": cid, "cloud": claim.cloud})
                events.append(tx, [late], time(tx))


LATE_REMEDY = "it goes when its node or server group is deleted, or by `coterie cleanup`"


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
    state = {"done": "done", "skip": "skipped", "fail": "failed", "wait": "cancelled"}[outcome.move]
    return writes.update(
        "steps", key, state=state, owner=None, label=outcome.label, data=outcome.data, error=outcome.error, ended_at=NOW
    )


def _advance(
    tx: Tx, valid: Sequence[Outcome], stopping: set[int], happened: list[Event], at: float, admitted: list[Ready]
) -> None:
    ended: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for outcome in valid:
        task, stage = outcome.claim.task, outcome.claim.stage
        if outcome.move == "next" or (outcome.move == "wait" and task not in stopping):
            continue
        count, failed = ended[task].get(stage, (0, 0))
        ended[task][stage] = (count + 1, failed + (outcome.move == "fail"))
    closing = [task for task in sorted(ended) if stages.count(tx, task, ended[task], admitted)]
    events.append(tx, happened, at)
    for task in closing:
        tasks.lock(tx, task)
        if stages.settle(tx, task, admitted):
            tasks.end(tx, task)


def last_node_data(tx: Tx, node: str) -> dict[str, Any] | None:
    """The data of the last step that created or changed this node; None when there is none."""
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


def running(tx: Tx, owner: str) -> list[int]:
    return list(tx.execute(sa.select(steps.c.id).where(steps.c.owner == owner, steps.c.state == "running")).scalars())


def hand_back_one(tx: Tx, owner: str, step: int) -> None:
    """Return a step that the owner holds without knowing it."""
    _return(tx, sa.and_(steps.c.id == step, steps.c.owner == owner))


def hand_back_all(tx: Tx, owner: str) -> list[int]:
    """Return every running step of this owner; the tasks they belong to.

    A task that is being cancelled takes them back too: what the owner left in doubt is settled first, and the step
    ends as cancelled at its next rest.
    """
    return _return(tx, steps.c.owner == owner)


def hand_back_orphans(tx: Tx) -> list[int]:
    """Return every running step whose owner is no living conductor."""
    return _return(tx, steps.c.owner.not_in(_ALIVE))


def orphaned(tx: Tx) -> bool:
    """Whether there is such a step: a cheap look before a write."""
    lost = sa.select(steps.c.id).where(steps.c.state == "running", steps.c.owner.not_in(_ALIVE)).limit(1)
    return tx.execute(lost).first() is not None


_ALIVE = sa.select(conductors.c.name + "#" + conductors.c.incarnation)


def _return(tx: Tx, condition: sa.ColumnElement[bool]) -> list[int]:
    returned = (
        steps.update()
        .where(steps.c.state == "running", condition)
        .values(state="ready", owner=None, epoch=steps.c.epoch + 1)
        .returning(steps.c.task)
    )
    return sorted(set(tx.execute(returned).scalars()))


def regroup_node(tx: Tx, node: str, group: str) -> None:
    """Send the unfinished steps of this node to another group.

    A claim and its commits do not look at the group: what runs goes on where it is leased until it rests or is handed
    back. Then the new group takes it, so no step stays behind in a group whose conductors have died.
    """
    _regroup(tx, steps.c.node == node, group)


def regroup_cloud(tx: Tx, cloud: str, group: str) -> None:
    """The same for a cloud, except for nodes that have a group of their own or inherit one from elsewhere."""
    elsewhere = sa.func.coalesce(nodes.c.conductor_group, nodes.c.inherited_group).is_not(None)
    apart = sa.select(nodes.c.uuid).where(nodes.c.cloud == cloud, elsewhere)
    inherits = sa.or_(steps.c.node.is_(None), steps.c.node.not_in(apart))
    _regroup(tx, sa.and_(steps.c.cloud == cloud, inherits), group)


def _regroup(tx: Tx, condition: sa.ColumnElement[bool], group: str) -> None:
    """Rows are locked in the order in which commits lock them."""
    unfinished = sa.select(steps.c.id).where(
        condition, steps.c.state.in_(_UNFINISHED), steps.c.conductor_group != group
    )
    chosen = unfinished.order_by(steps.c.id).with_for_update().cte("chosen")
    ids = tx.execute(sa.select(chosen.c.id)).scalars().all()
    director_keys.sign_regrouped(tx, ids, group)
    tx.execute(steps.update().where(steps.c.id.in_(ids)).values(conductor_group=group))


def under_way(tx: Tx, flow: str) -> set[tuple[str, str]]:
    """(cloud, conductor group) of the unfinished steps of a flow."""
    query = sa.select(steps.c.cloud, steps.c.conductor_group).where(
        steps.c.flow == flow, steps.c.state.in_(_UNFINISHED)
    )
    return {(cloud, group) for cloud, group in tx.execute(query)}


_UNFINISHED = ("queued", "ready", "running")
