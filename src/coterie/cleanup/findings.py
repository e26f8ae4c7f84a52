"""What each object in a cloud, and each row without one, is to our Director. Pure: positive proof, or keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coterie.cpi.contract import PARTS_OF, CloudObject, may_be_ours, opt_out_reason
from coterie.ledger.rows.evidence import MarkRecord

# in_use           the ledger says what needs it
# orphan           mark, Director and ledger agree: we made it, and nothing of ours uses it
# unknown_outcome  its creation was never settled: it is reclaimed where it is needed, else deleted or closed
# missing          the ledger has it as present and needed, the cloud does not have it
# drift            needed, but not as recorded
# foreign          not our mark: never touched, only counted
# keep             the evidence is missing or contradicts itself; `reason` says which
Verdict = Literal["in_use", "orphan", "unknown_outcome", "missing", "drift", "foreign", "keep"]
# none · delete · reclaim (it is needed: use it) · close (nothing is there: the row ends, as a tombstone)
Action = Literal["none", "delete", "reclaim", "close"]

BY_A_WORD = "people keep it by a word"  # the evidence of what `opt_out_reason` keeps
_UNSETTLED = ("intended", "unknown")


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    reason: str
    action: Action = "none"
    evidence: tuple[str, ...] = ()


def judge(
    found: CloudObject, record: MarkRecord | None, director: str, cloud: str, now: float, enrolled: str | None = None
) -> Finding:
    """`record`: the row behind the object's mark, read after the cloud was listed. `enrolled`: as which node."""
    if enrolled is not None:
        return Finding("in_use", f"it is enrolled as node {enrolled}")
    if found.mark is None:
        return Finding("foreign", "it carries no mark")
    if found.mark.director != director:
        return Finding("foreign", "it belongs to another Director")
    if record is None:
        return Finding("keep", "the ledger has no record of its mark: was the ledger restored from an old backup?")
    if record.cloud != cloud:
        return Finding("in_use", f"it is judged with cloud {record.cloud}, which sees the same account")
    conflict = _conflict(found, record)
    if conflict:
        return Finding("keep", conflict)
    if record.user is not None:
        return _needed(found, record)
    return _unneeded(found, record, opt_out_reason(found.tags, now))


def judge_absent(record: MarkRecord) -> Finding:
    """A row whose object a complete list did not show."""
    if record.user is not None and record.state not in _UNSETTLED:
        return Finding("missing", f"{record.user} needs it, and the cloud does not have it", evidence=_row(record))
    if record.task is not None:
        return Finding("in_use", f"task {record.task} is at work on it")
    if record.state in _UNSETTLED:
        return Finding("unknown_outcome", "its creation was never settled, and nothing appeared", "close", _row(record))
    return Finding("orphan", "nothing needs it, and the cloud does not have it", "close", _row(record))


def _conflict(found: CloudObject, record: MarkRecord) -> str | None:
    if found.kind == "network":
        return "a network is listed, never deleted"
    if found.kind != record.kind and found.kind not in PARTS_OF.get(record.kind, ()):
        return f"its mark is that of a {record.kind}: was it copied?"
    if found.kind == record.kind and record.cid not in (None, found.cid):
        return f"its mark is that of {record.cid}: was it copied?"
    if found.kind != record.kind and not may_be_ours(record.parts, found.kind, found.cid):
        return f"it did not come with {record.kind} {record.cid or record.intent}, whose mark it has: was it copied?"
    return None


def _needed(found: CloudObject, record: MarkRecord) -> Finding:
    if found.kind != record.kind or record.task is not None:
        return Finding("in_use", f"{record.user} needs it")
    if record.state in _UNSETTLED:
        why = f"its creation was thought failed, and {record.user} still needs it"
        return Finding("unknown_outcome", why, "reclaim", _row(record))
    if record.state == "gone":
        return Finding("keep", f"the ledger says that it is gone, and yet that {record.user} needs it")
    drift = _drift(found, record)
    return Finding("drift", drift, evidence=_row(record)) if drift else Finding("in_use", f"{record.user} needs it")


def _drift(found: CloudObject, record: MarkRecord) -> str | None:
    if record.state != "live" or record.node_state != "up":
        return None
    if found.kind == "vm" and found.state in ("stopped", "error"):
        return f"it is {found.state}, the ledger says that {record.user} is up"
    if found.kind == "disk" and found.in_use_by is not None and found.in_use_by != (record.vm_cid,):
        return f"attached to {', '.join(found.in_use_by) or 'nothing'}, the ledger says {record.vm_cid}"
    return None


def _unneeded(found: CloudObject, record: MarkRecord, opt_out: str | None) -> Finding:
    if record.task is not None:
        return Finding("keep", f"task {record.task} is at work on {record.deployment or 'deployments'}")
    if opt_out:
        return Finding("keep", opt_out, evidence=(BY_A_WORD,))
    if found.in_use_by is None:
        return Finding("keep", "the cloud does not say whether anything uses it")
    evidence = (f"it carries our mark {record.intent}", *_row(record), *_parts_of(found, record))
    if record.state in _UNSETTLED and found.kind == record.kind:
        return Finding("unknown_outcome", "its creation was never settled, and nothing needs it", "delete", evidence)
    return Finding("orphan", _why(found, record), "delete", evidence)


def _why(found: CloudObject, record: MarkRecord) -> str:
    if found.kind != record.kind:
        return f"it belongs to {record.kind} {record.cid or record.intent}, which nothing needs"
    if record.state == "gone" and record.tombstone:
        return "it appeared after its creation had been given up"
    return {
        "gone": "the ledger says that it is gone",
        "deleting": "its deletion was begun and never finished",
        "kept": "it was kept for undo, and no node uses it",
    }.get(record.state, "no deployment needs it any more")


def _parts_of(found: CloudObject, record: MarkRecord) -> tuple[str, ...]:
    """What goes with it, if nothing else uses it."""
    named = [f"{part.kind} {part.cid}" for part in record.parts if part.cid and found.kind == record.kind]
    return (f"with it go, unless they are used: {', '.join(named)}",) if named else ()


def _row(record: MarkRecord) -> tuple[str, ...]:
    of = f" of {record.deployment or ''} {record.ref or ''}".rstrip()
    tomb = ", a tombstone" if record.tombstone else ""
    return (
        f"the ledger has it as {record.state}{tomb}{of if of != ' of' else ''}",
        f"needed by {record.user or 'nothing'}",
    )
