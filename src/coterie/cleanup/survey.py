"""Lists one kind in one cloud, page by page, and judges every object by the ledger, which is read after the page.

What is in use or foreign is only counted, so memory depends on what is wrong, not on what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.cleanup.findings import Finding, judge, judge_absent
from coterie.cpi.contract import CloudObject, CpiError, Kind, Mark, SurveyPage
from coterie.engine.flow import Done, Flow, Move, Next, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import alarms, cleanups, deletion_candidates, enrolled, evidence
from coterie.ledger.rows.cleanups import FindingRow
from coterie.ledger.rows.deletion_candidates import DeletionCandidate
from coterie.ledger.rows.evidence import MarkRecord
from coterie.ledger.rows.objects import OPEN

NO_DIRECTOR = "ffffffff-ffff-4fff-bfff-ffffffffffff"  # no Director has it: a filter that works answers nothing
BATCH = 500
_MOST_CONFIRMED = 100  # missing objects that are looked for one by one


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


def _begin(work: SurveyWork) -> Move:
    can, kind = work.cpi.capabilities(), work.params.kind
    with work.ledger.read() as tx:
        rung = alarms.of_clouds(tx, [work.cloud]).get(work.cloud)
    if rung:
        return _stop(work, f"the cloud has an alarm: {rung[0].body}; {alarms.remedy(work.cloud)}")
    if "survey" in can.unsupported:
        return _end(work, "unlisted", can.unsupported["survey"].why)
    if kind not in can.kinds:
        return _end(work, "absent")
    work.progress.started = work.moment
    page = _read_page(work, NO_DIRECTOR, None) if kind in can.filtered else None
    if isinstance(page, Done):
        return page
    if page is not None and page.objects:
        return _stop(work, "the cloud ignores the filter by owner: a Director that does not exist has objects")
    return Next("page")


def _page(work: SurveyWork) -> Move:
    cursor = work.progress.cursor
    page = _read_page(work, work.director_uuid, cursor)
    if isinstance(page, Done):
        return page
    flaw = _flaw(work, page, cursor)
    if flaw:
        return _stop(work, flaw)
    _judge_page(work, list({found.cid: found for found in page.objects}.values()))
    work.progress.cursor = page.next
    work.progress.pages += 1
    return Next("page" if page.next else "absent")


def _absent(work: SurveyWork) -> Move:
    """Rows that were there before the list was begun and are not in it."""
    cleanup, kind, cloud = _scope(work)
    started, after = work.progress.started or 0.0, work.progress.after
    with work.ledger.read() as tx:
        rows = evidence.list_unseen(tx, cleanup, cloud, kind, started, after, BATCH)
        outdated = deletion_candidates.list_outdated(tx, cloud, kind, cleanup)
    for record in rows:
        _judge_absent(work, record)
    if len(rows) == BATCH:
        work.progress.after = rows[-1].intent
        return Next("absent")
    work.write(*[deletion_candidates.remove(cloud, kind, cid) for cid in outdated])
    return _end(work, "done")


def _fail(work: SurveyWork, error: CoterieError) -> None:
    _stop(work, str(error))


def _read_page(work: SurveyWork, director: str, cursor: str | None) -> SurveyPage | Done:
    """A page, or the end of the survey where the cloud refuses to list."""
    try:
        page = work.cpi.survey(work.params.kind, director, cursor)
    except CpiError as error:
        if error.retryable:
            raise
        return _stop(work, f"the list broke off: {error}")
    work.progress.calls += page.calls
    return page


def _flaw(work: SurveyWork, page: SurveyPage, cursor: str | None) -> str | None:
    if not page.complete:
        return "the cloud's list is incomplete, so nothing is concluded from it"
    if page.next is not None and page.next == cursor:
        return "the cloud's list goes in circles"
    marking = work.cpi.capabilities().kinds.get(work.params.kind)
    unreadable = [found.cid for found in page.objects if not found.is_readable]
    if unreadable and marking in ("atomic", "later"):
        return f"the tags of {len(unreadable)} could not be read, {unreadable[0]} among them"
    return None


def _stop(work: SurveyWork, reason: str) -> Done:
    work.say("cleanup.stopped", f"{work.params.kind}: {reason}")
    return _end(work, "stopped", reason)


def _end(work: SurveyWork, state: str, reason: str | None = None) -> Done:
    cleanup, kind, cloud = _scope(work)
    progress = work.progress
    figures: dict[str, Any] = {"calls": progress.calls, "pages": progress.pages, "counts": progress.counts}
    work.write(*cleanups.end_survey(cleanup, cloud, kind, state, reason=reason, **figures))
    if state == "done":
        counts = sorted(progress.counts.items())
        words = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts)
        body = f"{kind}: {words or 'nothing'}; {progress.calls} calls"
        work.say("cleanup.surveyed", body, **progress.counts)
    return Done()


def _scope(work: SurveyWork) -> tuple[int, Kind, str]:
    return work.params.cleanup, work.params.kind, work.cloud


def _judge_page(work: SurveyWork, found: Sequence[CloudObject]) -> None:
    for begin in range(0, len(found), BATCH):
        batch = found[begin : begin + BATCH]
        cleanup, kind, cloud = _scope(work)
        intents = [thing.mark.intent for thing in batch if thing.mark]
        with work.ledger.read() as tx:
            records = evidence.records(tx, cloud, intents)
            candidates = deletion_candidates.of_page(tx, cloud, kind, [thing.cid for thing in batch])
            seen = evidence.find_sighted(tx, cleanup, cloud, kind, intents)
            kept = enrolled.among(tx, cloud, [thing.cid for thing in batch]) if kind == "vm" else {}
        now = work.moment
        for thing in batch:
            record = records.get(thing.mark.intent) if thing.mark else None
            verdict = judge(thing, record, work.director_uuid, cloud, now, kept.get(thing.cid))
            _record(work, thing, record, verdict, candidates.get(thing.cid), now)
        for intent in _sighted(kind, cloud, records.values()):
            if intent not in seen:
                work.write(cleanups.record_sighting(cleanup, cloud, kind, intent))


def _sighted(kind: str, cloud: str, records: Iterable[MarkRecord]) -> Iterator[str]:
    for record in records:
        if (record.kind, record.cloud) == (kind, cloud) and (record.state in OPEN or record.state == "missing"):
            yield record.intent


def _record(
    work: SurveyWork,
    thing: CloudObject,
    record: MarkRecord | None,
    finding: Finding,
    candidate: DeletionCandidate | None,
    now: float,
) -> None:
    _count(work, finding)
    if finding.verdict in ("in_use", "foreign"):
        return
    since = _track_candidate(work, thing, finding, candidate, now)
    _add_finding(work, finding, record, thing, since=since, doomed=bool(candidate and candidate.doomed))


def _track_candidate(
    work: SurveyWork, thing: CloudObject, finding: Finding, candidate: DeletionCandidate | None, now: float
) -> float | None:
    """Since when it has been unused. Only what may be deleted becomes a candidate; what undo has saved stays saved."""
    cleanup, kind, cloud = _scope(work)
    if finding.action != "delete":
        if candidate and candidate.pinned:
            work.write(deletion_candidates.confirm(cloud, kind, thing.cid, cleanup))
        return None
    if candidate is None:
        intent = thing.mark.intent if thing.mark else ""
        new = deletion_candidates.add(
            cloud, kind, thing.cid, intent=intent, created_at=thing.created_at, cleanup=cleanup
        )
        work.write(new)
        work.say("cleanup.marked", f"{kind} {thing.cid}: {finding.reason}", cid=thing.cid)
        return now
    if candidate.created_at is not None and candidate.created_at != thing.created_at:
        work.write(deletion_candidates.restart(cloud, kind, thing.cid, created_at=thing.created_at, cleanup=cleanup))
        return now
    work.write(deletion_candidates.confirm(cloud, kind, thing.cid, cleanup))
    return candidate.since


def _judge_absent(work: SurveyWork, record: MarkRecord) -> None:
    finding = judge_absent(record)
    if finding.verdict == "in_use":
        return
    if finding.verdict == "missing" and not _is_missing(work, record):
        return
    _count(work, finding)
    _add_finding(work, finding, record, None)


def _is_missing(work: SurveyWork, record: MarkRecord) -> bool:
    """A row may have been filled in while the list was read: look once more, for a limited number of rows."""
    work.progress.asked += 1
    if work.progress.asked > _MOST_CONFIRMED:
        return True
    work.progress.calls += 1
    return work.cpi.find(work.params.kind, Mark(work.director_uuid, record.intent)) is None


def _count(work: SurveyWork, finding: Finding) -> None:
    counts = work.progress.counts
    work.progress.counts = {**counts, finding.verdict: counts.get(finding.verdict, 0) + 1}


def _add_finding(
    work: SurveyWork,
    finding: Finding,
    record: MarkRecord | None,
    thing: CloudObject | None,
    *,
    since: float | None = None,
    doomed: bool = False,
) -> None:
    cleanup, kind, cloud = _scope(work)
    intent = record.intent if record else thing.mark.intent if thing and thing.mark else None
    work.write(
        cleanups.add_finding(
            FindingRow(
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


SURVEY = Flow("cleanup.survey", Survey, SurveyProgress, {"begin": _begin, "page": _page, "absent": _absent}, _fail)
