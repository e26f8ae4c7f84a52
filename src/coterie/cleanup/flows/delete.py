"""Deletes one object for good, a disk after a snapshot if the options say so; or begins the undo window of a disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.cleanup.flows.target import Target, TargetProgress, enter, fail_target, inspect, move_row, skip
from coterie.cpi.contract import (
    Changed,
    DiskNotFound,
    Expected,
    GroupMissing,
    Mark,
    StemcellNotFound,
    Throttled,
    VMNotFound,
)
from coterie.engine.flow import Done, Flow, Move, Next, Wait, Work
from coterie.engine.intent_life import Created, NotCreated, Uncalled, create_or_resume, note_uncalled
from coterie.engine.stored import OMIT_NONE, as_key, in_place
from coterie.flows.parts import announce_parts
from coterie.ledger.rows import cleanups, deletion_candidates, evidence, objects
from coterie.ledger.rows.evidence import MarkRecord

_GONE = (VMNotFound, DiskNotFound, StemcellNotFound, GroupMissing)
_LONGEST_REST_S = 30.0
_LONGEST_ASKED_S = 600.0
_THROTTLED = 200


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """There is no undo: that is what grace, plan and undo window were for. `snapshot`: make one of the disk first."""

    target: Target = field(metadata=in_place(Target))
    snapshot: bool


@dataclass(slots=True)
class DeleteProgress:
    paced: float | None = field(default=None, metadata=OMIT_NONE)
    used: int = 0
    etag: str | None = None
    was: str = ""  # the state of its row before
    copy: str | None = None  # intent of the snapshot
    uncalled: Uncalled | None = field(default=None, metadata=as_key("clear", Uncalled))
    throttled: int = 0


DeleteWork = Work[DeleteObject, DeleteProgress]


def _begin(work: DeleteWork) -> Move:
    rest = enter(work)
    if rest is not None:
        return rest
    found = inspect(work)
    if not isinstance(found, tuple):
        return found
    thing, record = found
    work.progress.etag, work.progress.was = thing.etag, record.state
    work.write(*move_row(work, record, "deleting"))
    if record.kind == thing.kind:
        announce_parts(work, record.intent, f"{thing.kind} {thing.cid}")
    return Next("want_snapshot" if work.params.snapshot else "delete")


def _intend_snapshot(work: DeleteWork) -> Move:
    if "snapshot_disk" in work.cpi.capabilities().unsupported:
        return _spare(work, "this cloud makes no snapshots; use --disks keep")
    target, intent = work.params.target, work.ids.intent()
    ref = f"disk {target.cid}"
    work.write(objects.intend(intent, "snapshot", work.cloud, deployment=target.deployment, ref=ref))
    work.progress.copy = intent
    note_uncalled(work, intent)
    return Next("snapshot_first")


def _create_snapshot(work: DeleteWork) -> Move:
    """The snapshot is kept for the undo window of the disk."""
    disk, about = work.params.target.cid, {"cleanup": str(work.claim.task)}
    copy = work.progress.copy or ""
    result = create_or_resume(work, "snapshot", copy, lambda mark: work.cpi.snapshot_disk(disk, about, mark=mark))
    match result:
        case Created(cid):
            work.say("cleanup.snapshot", f"disk {disk} is kept as snapshot {cid}", cid=cid)
            work.progress.etag = None  # a snapshot may have changed it
            return Next("keep_snapshot")
        case NotCreated():
            return Next("want_snapshot")
    return result


def _keep_snapshot(work: DeleteWork) -> Move:
    """A commit of its own: within one, the order of two changes of a row is not defined."""
    work.write(objects.keep(work.progress.copy or ""))
    return Next("delete")


def _delete(work: DeleteWork) -> Move:
    target = work.params.target
    expected = Expected(Mark(work.director_uuid, target.intent), target.created_at, work.progress.etag)
    try:
        work.cpi.delete_object(target.kind, target.cid, expected)
    except Changed as changed:
        return _spare(work, str(changed))
    except Throttled as busy:
        return _rest(work, busy)
    except _GONE:
        work.say("cleanup.gone", "was gone already")
    return _record_deletion(work)


def _record_deletion(work: DeleteWork) -> Move:
    target, record = work.params.target, _record(work)
    if record is not None:
        work.write(*move_row(work, record, "gone"))
    work.write(
        cleanups.record_outcome(target.finding, "deleted"),
        deletion_candidates.remove(work.cloud, target.kind, target.cid),
    )
    work.say("cleanup.deleted", f"{target.kind} {target.cid}: {target.reason}", cid=target.cid)
    return Done()


def _rest(work: DeleteWork, busy: Throttled) -> Move:
    """Neither dropped nor counted as a failure: the cloud only needs time."""
    work.progress.throttled += 1
    if work.progress.throttled > _THROTTLED:
        raise busy
    asked = busy.details.get("retry_after")
    if isinstance(asked, int | float):
        return Wait(min(_LONGEST_ASKED_S, float(asked)), str(busy))
    return Wait(min(_LONGEST_REST_S, 0.1 * 2 ** min(work.progress.throttled, 9)), str(busy))


def _spare(work: DeleteWork, why: str) -> Move:
    record = _record(work)
    if record is not None and record.state == "deleting":
        work.write(*move_row(work, record, work.progress.was))
    return skip(work, why)


def _record(work: DeleteWork) -> MarkRecord | None:
    intent = work.params.target.intent
    with work.ledger.read() as tx:
        return evidence.records(tx, work.cloud, [intent]).get(intent)


DELETE_OBJECT = Flow(
    "cleanup.delete",
    DeleteObject,
    DeleteProgress,
    {
        "begin": _begin,
        "want_snapshot": _intend_snapshot,
        "snapshot_first": _create_snapshot,
        "keep_snapshot": _keep_snapshot,
        "delete": _delete,
    },
    fail_target,
)


@dataclass(frozen=True, slots=True)
class RetireDisk:
    """Touches no cloud; undone by `cleanup undo`."""

    target: Target = field(metadata=in_place(Target))


def _retire(work: Work[RetireDisk, TargetProgress]) -> Move:
    rest = enter(work)
    if rest is not None:
        return rest
    found = inspect(work)
    if not isinstance(found, tuple):
        return found
    thing, record = found
    work.write(objects.keep_for_undo(record.intent, thing.cid))
    work.write(deletion_candidates.begin_undo_window(work.cloud, thing.kind, thing.cid))
    work.write(cleanups.record_outcome(work.params.target.finding, "retired"))
    work.say("cleanup.retired", f"disk {thing.cid} is kept for undo: coterie cleanup undo", cid=thing.cid)
    return Done()


RETIRE_DISK = Flow("cleanup.retire", RetireDisk, TargetProgress, {"begin": _retire}, fail_target)
