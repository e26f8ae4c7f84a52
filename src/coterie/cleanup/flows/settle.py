"""Ends what was never settled: an object that is needed is used, a row without an object is closed."""

from __future__ import annotations

from typing import ClassVar, cast

from coterie.cleanup.flows.target import Target, enter, freed, group_becomes, skip
from coterie.cpi.contract import Kind, Mark
from coterie.engine.create_once import Landed, Lost, settle
from coterie.engine.flow import Done, Move, Next, Work
from coterie.ledger.rows import cleanups, evidence, groups, nodes, objects
from coterie.ledger.rows.mark_record import Record

_UNSETTLED = ("intended", "unknown")


class CloseIntent(Target):
    """data: as Target. Changes no cloud. No undo: an object that comes later is known by the tombstone."""

    name: ClassVar[str] = "cleanup.close"

    def begin(self, work: Work) -> Move:
        rest = enter(work)
        if rest is not None:
            return rest
        record = _record(work)
        if record is None or record.state == "gone":
            return _end(work, "gone")
        if record.state in _UNSETTLED and record.kind != "server_group":
            return self._settle(work, record)
        if work.cpi.find(cast(Kind, record.kind), Mark(work.director_uuid, record.intent)) is not None:
            return skip(work, "it is there after all; the next cleanup judges it")
        if record.user is not None and record.state not in _UNSETTLED:
            return skip(work, f"{record.user} needs it by now")
        if record.kind == "server_group":
            work.write(*group_becomes(work, "deleting"))
            return Next("close_group")
        work.write(objects.record_gone(record.intent, tombstone=True), *freed(record))
        return _end(work, "closed")

    def close_group(self, work: Work) -> Move:
        """A group goes by way of *deleting*, so this is a commit of its own."""
        work.write(*group_becomes(work, "gone"))
        return _end(work, "closed")

    def _settle(self, work: Work, record: Record) -> Move:
        settled = settle(work, cast(Kind, record.kind), record.intent)
        match settled:
            case Landed():
                return skip(work, "it came meanwhile; the next cleanup judges it")
            case Lost():
                work.write(*freed(record))
                if record.kind == "vm" and record.user is not None and record.node:
                    work.write(nodes.change(record.node, vm_intent=None, vm_cid=None, server_group=None))
                return _end(work, "closed")
        return settled


class ReclaimObject(Target):
    """data: as Target. The object that was thought lost is written down; whoever needs it finds it there."""

    name: ClassVar[str] = "cleanup.reclaim"

    def begin(self, work: Work) -> Move:
        rest = enter(work)
        if rest is not None:
            return rest
        record = _record(work)
        if record is None or record.state not in _UNSETTLED:
            return skip(work, "it was settled meanwhile")
        if record.kind == "server_group":
            return self._reclaim_group(work)
        settled = settle(work, cast(Kind, record.kind), record.intent)
        match settled:
            case Landed(cid):
                if record.kind == "vm" and record.node:
                    work.write(nodes.change(record.node, vm_cid=cid))
                return _end(work, "reclaimed")
            case Lost():
                return skip(work, "it is not there any more")
        return settled

    def _reclaim_group(self, work: Work) -> Move:
        with work.ledger.read() as tx:
            row = groups.get(tx, work.data["intent"])
        if row is not None:
            work.write(groups.move(row, "live", cid=work.data["cid"]))
        return _end(work, "reclaimed")


def _record(work: Work) -> Record | None:
    with work.ledger.read() as tx:
        return evidence.records(tx, work.claim.cloud or "", [work.data["intent"]]).get(work.data["intent"])


def _end(work: Work, outcome: str) -> Move:
    work.write(cleanups.record_outcome(work.data["finding"], outcome))
    work.say(f"cleanup.{outcome}", f"{work.data['kind']} {work.data['cid'] or work.data['intent']}")
    return Done()
