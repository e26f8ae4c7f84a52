"""Begins the undo window of a disk that nobody uses: from now on it is kept, and `cleanup undo` saves it."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.cleanup.flows.target import Target, TargetProgress, enter, fail_target, inspect
from coterie.engine.flow import Done, Flow, Move, Work
from coterie.engine.stored import in_place
from coterie.ledger.rows import cleanups, deletion_candidates, objects


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
    work.write(deletion_candidates.doom(work.cloud, thing.kind, thing.cid))
    work.write(cleanups.record_outcome(work.params.target.finding, "retired"))
    work.say("cleanup.retired", f"disk {thing.cid} is kept for undo: coterie cleanup undo", cid=thing.cid)
    return Done()


RETIRE_DISK = Flow("cleanup.retire", RetireDisk, TargetProgress, {"begin": _retire}, fail_target)
