"""Weighs what a survey sees, and what it does not see, against the ledger; writes findings down and marks orphans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from coterie.cleanup.findings import Finding, judge, judge_absent
from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.engine.flow import Work
from coterie.ledger.rows import cleanups, deletion_candidates, enrolled, evidence
from coterie.ledger.rows.cleanups import NewFinding
from coterie.ledger.rows.mark_record import Record, Suspect
from coterie.ledger.rows.objects import OPEN

BATCH = 500
_CONFIRMED = 100  # missing objects that are asked for one by one


@dataclass(frozen=True, slots=True)
class Survey:
    """Changes no cloud; a page is committed with the place to go on from."""

    cleanup: int
    kind: Kind


@dataclass(slots=True)
class SurveyProgress:
    started: float | None = None
    calls: int = 0
    pages: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # by verdict
    cursor: str | None = None
    after: str = ""  # the last row of the ledger that was looked at
    asked: int = 0  # missing objects that were looked up one by one


SurveyWork = Work[Survey, SurveyProgress]


def where(work: SurveyWork) -> tuple[int, Kind, str]:
    return work.params.cleanup, work.params.kind, work.cloud


def weigh(work: SurveyWork, found: Sequence[CloudObject]) -> None:
    for begin in range(0, len(found), BATCH):
        batch = found[begin : begin + BATCH]
        cleanup, kind, cloud = where(work)
        intents = [thing.mark.intent for thing in batch if thing.mark]
        with work.ledger.read() as tx:
            records = evidence.records(tx, cloud, intents)
            marked = deletion_candidates.of_page(tx, cloud, kind, [thing.cid for thing in batch])
            seen = evidence.sighted(tx, cleanup, cloud, kind, intents)
            kept = enrolled.among(tx, cloud, [thing.cid for thing in batch]) if kind == "vm" else {}
        now = work.moment
        for thing in batch:
            record = records.get(thing.mark.intent) if thing.mark else None
            verdict = judge(thing, record, work.director_uuid, cloud, now, kept.get(thing.cid))
            _note(work, thing, record, verdict, marked.get(thing.cid), now)
        for intent in _seen(kind, cloud, records.values()):
            if intent not in seen:
                work.write(cleanups.record_sighting(cleanup, cloud, kind, intent))


def _seen(kind: str, cloud: str, records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        if (record.kind, record.cloud) == (kind, cloud) and (record.state in OPEN or record.state == "missing"):
            yield record.intent


def _note(
    work: SurveyWork, thing: CloudObject, record: Record | None, finding: Finding, mark: Suspect | None, now: float
) -> None:
    _count(work, finding)
    if finding.verdict in ("in_use", "foreign"):
        return
    since = _mark(work, thing, finding, mark, now)
    _found(work, finding, record, thing, since=since, doomed=bool(mark and mark.doomed))


def _mark(work: SurveyWork, thing: CloudObject, finding: Finding, mark: Suspect | None, now: float) -> float | None:
    """Since when it has been unused. Only what may be deleted is marked; what undo has saved stays so."""
    cleanup, kind, cloud = where(work)
    if finding.action != "delete":
        if mark and mark.pinned:
            work.write(deletion_candidates.seen(cloud, kind, thing.cid, cleanup))
        return None
    if mark is None:
        intent = thing.mark.intent if thing.mark else ""
        values = {"intent": intent, "created_at": thing.created_at, "cleanup": cleanup}
        work.write(deletion_candidates.mark(cloud, kind, thing.cid, **values))  # type: ignore[arg-type]  # one dict for three
        work.say("cleanup.marked", f"{kind} {thing.cid}: {finding.reason}", cid=thing.cid)
        return now
    if mark.created_at is not None and mark.created_at != thing.created_at:
        work.write(deletion_candidates.restart(cloud, kind, thing.cid, created_at=thing.created_at, cleanup=cleanup))
        return now
    work.write(deletion_candidates.seen(cloud, kind, thing.cid, cleanup))
    return mark.since


def weigh_absent(work: SurveyWork, record: Record) -> None:
    finding = judge_absent(record)
    if finding.verdict == "in_use":
        return
    if finding.verdict == "missing" and not _confirmed(work, record):
        return
    _count(work, finding)
    _found(work, finding, record, None)


def _confirmed(work: SurveyWork, record: Record) -> bool:
    """A row may have been filled in while the list was read; so the cloud is asked once more, but not for ever."""
    work.progress.asked += 1
    if work.progress.asked > _CONFIRMED:
        return True
    work.progress.calls += 1
    return work.cpi.find(work.params.kind, Mark(work.director_uuid, record.intent)) is None


def _count(work: SurveyWork, finding: Finding) -> None:
    counts = work.progress.counts
    work.progress.counts = {**counts, finding.verdict: counts.get(finding.verdict, 0) + 1}


def _found(
    work: SurveyWork,
    finding: Finding,
    record: Record | None,
    thing: CloudObject | None,
    *,
    since: float | None = None,
    doomed: bool = False,
) -> None:
    cleanup, kind, cloud = where(work)
    intent = record.intent if record else thing.mark.intent if thing and thing.mark else None
    work.write(
        cleanups.add_finding(
            NewFinding(
                cleanup=cleanup,
                cloud=cloud,
                kind=kind,
                cid=thing.cid if thing else record.cid if record else None,
                name=thing.name if thing else None,
                az=thing.az if thing else None,
                created_at=thing.created_at if thing else None,
                etag=thing.etag if thing else None,
                intent=intent,
                deployment=record.deployment if record else None,
                node=record.node if record else None,
                ref=record.ref if record else None,
                ledger_state=record.state if record else None,
                verdict=finding.verdict,
                action=finding.action,
                reason=finding.reason,
                evidence=list(finding.evidence),
                used_by=list(thing.in_use_by or ()) if thing else [],
                since=since,
                doomed=doomed,
            )
        )
    )
