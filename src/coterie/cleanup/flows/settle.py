"""Ends what was never settled: an object that is needed is used, a row without an object is closed."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.cleanup.flows.target import (
    Target,
    TargetProgress,
    TargetWork,
    enter,
    fail_target,
    free_addresses,
    move_group,
    skip,
)
from coterie.cpi.contract import Mark
from coterie.engine.flow import Done, Flow, Move, Next, Work
from coterie.engine.intent_life import Created, NotCreated, find_created
from coterie.engine.stored import in_place
from coterie.ledger.rows import cleanups, evidence, groups, nodes, objects
from coterie.ledger.rows.evidence import MarkRecord

_UNSETTLED = ("intended", "unknown")


@dataclass(frozen=True, slots=True)
class CloseIntent:
    """Changes no cloud. No undo: an object that comes later is known by the tombstone."""

    target: Target = field(metadata=in_place(Target))


@dataclass(frozen=True, slots=True)
class ReclaimObject:
    """The object that was thought lost is written down; a later plan or step that needs it finds it in the ledger."""

    target: Target = field(metadata=in_place(Target))


def _close(work: Work[CloseIntent, TargetProgress]) -> Move:
    rest = enter(work)
    if rest is not None:
        return rest
    record = _record(work)
    if record is None or record.state == "gone":
        return _end(work, "gone")
    if record.state in _UNSETTLED and record.kind != "server_group":
        return _close_unsettled(work, record)
    if work.cpi.find(record.kind, Mark(work.director_uuid, record.intent)) is not None:
        return skip(work, "it is there after all; the next cleanup judges it")
    if record.user is not None and record.state not in _UNSETTLED:
        return skip(work, f"{record.user} needs it by now")
    if record.kind == "server_group":
        work.write(*move_group(work, "deleting"))
        return Next("close_group")
    work.write(objects.record_gone(record.intent, tombstone=True), *free_addresses(record))
    return _end(work, "closed")


def _close_group(work: Work[CloseIntent, TargetProgress]) -> Move:
    """A group goes by way of *deleting*, so this is a commit of its own."""
    work.write(*move_group(work, "gone"))
    return _end(work, "closed")


def _close_unsettled(work: Work[CloseIntent, TargetProgress], record: MarkRecord) -> Move:
    found = find_created(work, record.kind, record.intent)
    match found:
        case Created():
            return skip(work, "it appeared meanwhile; the next cleanup judges it")
        case NotCreated():
            work.write(*free_addresses(record))
            if record.kind == "vm" and record.user is not None and record.node:
                work.write(nodes.forget_vm(record.node))
            return _end(work, "closed")
    return found


def _reclaim(work: Work[ReclaimObject, TargetProgress]) -> Move:
    rest = enter(work)
    if rest is not None:
        return rest
    record = _record(work)
    if record is None or record.state not in _UNSETTLED:
        return skip(work, "it was settled meanwhile")
    if record.kind == "server_group":
        return _reclaim_group(work)
    found = find_created(work, record.kind, record.intent)
    match found:
        case Created(cid):
            if record.kind == "vm" and record.node:
                work.write(nodes.record_vm(record.node, cid))
            return _end(work, "reclaimed")
        case NotCreated():
            return skip(work, "it is not there any more")
    return found


def _reclaim_group(work: Work[ReclaimObject, TargetProgress]) -> Move:
    target = work.params.target
    with work.ledger.read() as tx:
        row = groups.get(tx, target.intent)
    if row is not None:
        work.write(groups.move(row, "live", cid=target.cid))
    return _end(work, "reclaimed")


def _record(work: TargetWork) -> MarkRecord | None:
    intent = work.params.target.intent
    with work.ledger.read() as tx:
        return evidence.records(tx, work.cloud, [intent]).get(intent)


def _end(work: TargetWork, outcome: str) -> Move:
    target = work.params.target
    work.write(cleanups.record_outcome(target.finding, outcome))
    work.say(f"cleanup.{outcome}", f"{target.kind} {target.cid or target.intent}")
    return Done()


CLOSE_INTENT = Flow(
    "cleanup.close", CloseIntent, TargetProgress, {"begin": _close, "close_group": _close_group}, fail_target
)
RECLAIM_OBJECT = Flow("cleanup.reclaim", ReclaimObject, TargetProgress, {"begin": _reclaim}, fail_target)
