"""Begins the undo window of a disk that nobody uses: from now on it is kept, and `cleanup undo` saves it."""

from __future__ import annotations

from typing import ClassVar

from coterie.cleanup.flows.target import Target, enter, inspect
from coterie.engine.flow import Done, Move, Work
from coterie.ledger.rows import cleanups, deletion_candidates, objects


class RetireDisk(Target):
    """data: as Target. Touches no cloud; undone by `cleanup undo`."""

    name: ClassVar[str] = "cleanup.retire"

    def begin(self, work: Work) -> Move:
        rest = enter(work)
        if rest is not None:
            return rest
        found = inspect(work)
        if not isinstance(found, tuple):
            return found
        thing, record = found
        work.write(objects.keep_for_undo(record.intent, thing.cid))
        work.write(deletion_candidates.doom(work.claim.cloud or "", thing.kind, thing.cid))
        work.write(cleanups.record_outcome(work.data["finding"], "retired"))
        work.say("cleanup.retired", f"disk {thing.cid} is kept for undo: coterie cleanup undo", cid=thing.cid)
        return Done()
