"""What every deletion checks first: it locks the object against deployments, reads it again, and compares it with
what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from coterie.cleanup.findings import judge
from coterie.cleanup.options import within
from coterie.cpi.contract import CloudObject, Cpi, Kind, Mark
from coterie.engine.flow import Done, Move, Wait, Work
from coterie.engine.stored import OMIT_NONE
from coterie.errors import CoterieError
from coterie.ledger.rows import alarms, cleanups, deletion_candidates, enrolled, evidence, groups, holds, nodes, objects
from coterie.ledger.rows.evidence import MarkRecord
from coterie.ledger.writes import Write

HOLD_S = 900.0  # longer than any call may take
_PATIENCE = 12


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a step of a sweep is about, as the survey found it, and the limits of the sweep."""

    finding: int
    kind: Kind
    cid: str
    created_at: float | None
    intent: str
    deployment: str | None
    reason: str
    every_s: float  # between two deletions in one cloud
    hours: str  # in which the sweep may work
    reclaims: Mapping[str, int]  # deployment → the task that reclaims its VMs


class HasTarget(Protocol):
    @property
    def target(self) -> Target: ...


class Pacing(Protocol):
    paced: float | None  # seconds until its slot, once it has one
    used: int  # how often the object was found in use


@dataclass(slots=True)
class TargetProgress:
    paced: float | None = field(default=None, metadata=OMIT_NONE)
    used: int = 0


TargetWork = Work[HasTarget, Any]


def fail_target(work: TargetWork, error: CoterieError) -> None:
    work.write(cleanups.record_outcome(work.params.target.finding, "failed", error.facts()))


def enter(work: Work[HasTarget, Pacing]) -> Move | None:
    """Wait for the step's slot, then lock what the object belongs to; None when the step may go on."""
    target, progress = work.params.target, work.progress
    if target.hours and not within(target.hours, work.moment):
        return skip(work, f"outside the allowed hours {target.hours}")
    with work.ledger.read() as tx:
        rung = alarms.of_clouds(tx, [work.cloud]).get(work.cloud)
    if rung:
        return skip(work, f"the cloud has an alarm: {rung[0].body}")
    if progress.paced is None:
        with work.ledger.write_silently() as tx:
            progress.paced = holds.pace(tx, work.cloud, target.every_s)
        if progress.paced > 0:
            return Wait(progress.paced, "deletions are paced")
    name = _hold(work)
    if name is None:
        return None
    with work.ledger.write_silently() as tx:
        busy = holds.take(tx, name, work.claim.task, HOLD_S)
    if busy is None:
        return None
    if busy == target.reclaims.get(target.deployment or ""):
        return Wait(0.2, f"task {busy} reclaims what {name} needs")
    return skip(work, f"task {busy} is at work on {name}")


def inspect(work: Work[HasTarget, Pacing]) -> tuple[CloudObject, MarkRecord] | Move:
    """Read it again in the cloud and in the ledger: unchanged, unneeded, unused; else how the step ends."""
    target, cloud = work.params.target, work.cloud
    mark = Mark(work.director_uuid, target.intent)
    found = _read_again(work.cpi, target.kind, mark, target.cid)
    with work.ledger.read() as tx:
        record = evidence.records(tx, cloud, [mark.intent]).get(mark.intent)
        candidate = deletion_candidates.get(tx, cloud, target.kind, target.cid)
        kept = enrolled.among(tx, cloud, [target.cid]) if target.kind == "vm" else {}
    if found is None:
        return _record_vanished(work, record)
    if found.created_at != target.created_at:
        return skip(work, "another object has this id by now")
    finding = judge(found, record, work.director_uuid, cloud, work.moment, kept.get(found.cid))
    if finding.action != "delete" or record is None:
        return skip(work, f"not an orphan any more: {finding.reason}")
    if candidate is not None and candidate.pinned:
        return skip(work, "undo has saved it")
    if found.in_use_by:
        return _wait_until_unused(work, found.in_use_by)
    return found, record


def skip(work: TargetWork, why: str) -> Move:
    work.write(cleanups.record_outcome(work.params.target.finding, "skipped", {"why": why}))
    work.say("cleanup.skipped", why, cid=work.params.target.cid)
    return Done()


def move_row(work: TargetWork, record: MarkRecord, state: str) -> list[Write]:
    """Move the row behind the object to this state; parts created beside an object have no row of their own."""
    if record.kind != work.params.target.kind:
        return []
    if record.kind == "server_group":
        return move_group(work, state)
    if state == "gone":
        return [objects.record_gone(record.intent, tombstone=record.tombstone), *free_addresses(record)]
    if state == "deleting":
        return [objects.begin_delete(record.intent, work.params.target.cid)]
    return [objects.end_delete(record.intent, state)]


def move_group(work: TargetWork, state: str) -> list[Write]:
    """A group that is gone stays so, whatever the cloud still shows of it."""
    with work.ledger.read() as tx:
        row = groups.get(tx, work.params.target.intent)
    if row is None or row.state in ("gone", state):
        return []
    return [groups.move(row, state)]


def free_addresses(record: MarkRecord) -> list[Write]:
    """With the VM of a node that is gone, its addresses are free."""
    if record.kind != "vm" or record.node is None or record.node_state is not None:
        return []
    return [nodes.free_addresses(record.node)]


def _hold(work: TargetWork) -> str | None:
    target = work.params.target
    if target.kind == "image":
        return holds.STEMCELLS
    return holds.of_deployment(target.deployment) if target.deployment else None


def _read_again(cpi: Cpi, kind: Kind, mark: Mark, cid: str) -> CloudObject | None:
    """By its mark; where several carry the same one, by its id in the list."""
    found = cpi.find(kind, mark)
    if found is None or found.cid == cid:
        return found
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, mark.director, cursor)
        same = next((thing for thing in page.objects if thing.cid == cid and thing.mark == mark), None)
        if same is not None or page.next is None:
            return same
        cursor = page.next


def _record_vanished(work: TargetWork, record: MarkRecord | None) -> Move:
    """Nothing carries this mark any more. Should it come back, the tombstone shows that it is an orphan."""
    kind, cid = work.params.target.kind, work.params.target.cid
    if record is not None and record.user is None and record.kind == kind and kind != "server_group":
        work.write(objects.record_gone(record.intent, tombstone=True), *free_addresses(record))
    elif record is not None and record.user is None and record.kind == kind:
        # Where it was not being deleted, the next survey finds its row without an object, and closes it.
        work.write(*move_group(work, "gone" if record.state == "deleting" else "deleting"))
    work.write(
        cleanups.record_outcome(work.params.target.finding, "gone"), deletion_candidates.remove(work.cloud, kind, cid)
    )
    work.say("cleanup.gone", f"nothing carries the mark of {kind} {cid} any more", cid=cid)
    return Done()


def _wait_until_unused(work: Work[HasTarget, Pacing], users: tuple[str, ...]) -> Move:
    """Clouds name a deleted VM as a user for a while; another user never goes, so the number of tries is bounded."""
    work.progress.used += 1
    if work.progress.used > _PATIENCE:
        return skip(work, f"used by {', '.join(users)}")
    return Wait(0.1 * work.progress.used, f"used by {', '.join(users)}", "begin")
