"""Lists one kind in one cloud, page by page, and weighs every object against the ledger, which is read after the page.

What is in use or foreign is only counted, so memory depends on what is wrong, not on what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, cast

from coterie.cleanup.findings import Finding, judge, judge_absent
from coterie.cpi.contract import CloudObject, CpiError, Kind, Mark, SurveyPage
from coterie.errors import CoterieError
from coterie.ledger import cleanups, evidence, suspects
from coterie.ledger.objects import OPEN
from coterie.ledger.record import Record, Suspect
from coterie.ledger.writes import delete, insert
from coterie.task.flow import Done, Flow, Move, Next, Work

NOBODY = "ffffffff-ffff-4fff-bfff-ffffffffffff"  # no Director has it: a filter that works answers nothing
_BATCH = 500
_CONFIRMED = 100  # missing objects that are asked for one by one


class Survey(Flow):
    """data: cleanup, kind. Changes no cloud; a page is committed with the place to go on from."""

    name: ClassVar[str] = "cleanup.survey"

    def begin(self, work: Work) -> Move:
        can, kind = work.cpi.capabilities(), work.data["kind"]
        if "survey" in can.unsupported:
            return _stop(work, can.unsupported["survey"].why)
        if kind not in can.kinds:
            return _end(work, "absent")
        work.data.update(started=work.moment, calls=0, pages=0, counts={}, after="")
        if kind in can.filtered and self._page(work, NOBODY, None).objects:
            return _stop(work, "the cloud ignores the filter by owner: a Director that does not exist has objects")
        return Next("page")

    def page(self, work: Work) -> Move:
        cursor = work.data.get("cursor")
        try:
            page = self._page(work, work.director_uuid, cursor)
        except CpiError as error:
            if error.retryable:
                raise
            return _stop(work, f"the list broke off: {error}")
        flaw = _flaw(work, page, cursor)
        if flaw:
            return _stop(work, flaw)
        _weigh(work, list({found.cid: found for found in page.objects}.values()))
        work.data.update(cursor=page.next, pages=work.data["pages"] + 1)
        return Next("page" if page.next else "absent")

    def absent(self, work: Work) -> Move:
        """Rows that were there before the list was begun and are not in it."""
        cleanup, kind, cloud = _where(work)
        with work.ledger.read() as tx:
            rows = evidence.unseen(tx, cleanup, cloud, kind, work.data["started"], work.data["after"], _BATCH)
            outdated = suspects.outdated(tx, cloud, kind, cleanup)
        for record in rows:
            _weigh_absent(work, record)
        if len(rows) == _BATCH:
            work.data["after"] = rows[-1].intent
            return Next("absent")
        work.write(*[suspects.clear(cloud, kind, cid) for cid in outdated])
        return _end(work, "done")

    def failed(self, work: Work, error: CoterieError) -> None:
        _stop(work, str(error))

    def _page(self, work: Work, director: str, cursor: str | None) -> SurveyPage:
        page = work.cpi.survey(cast(Kind, work.data["kind"]), director, cursor)
        work.data["calls"] += page.calls
        return page


def _where(work: Work) -> tuple[int, str, str]:
    return work.data["cleanup"], work.data["kind"], work.claim.cloud or ""


def _flaw(work: Work, page: SurveyPage, cursor: str | None) -> str | None:
    if not page.complete:
        return "the cloud's list is incomplete, so nothing is concluded from it"
    if page.next is not None and page.next == cursor:
        return "the cloud's list goes in circles"
    marking = work.cpi.capabilities().kinds.get(work.data["kind"])
    unreadable = [found.cid for found in page.objects if found.mark is None and found.tags is None]
    if unreadable and marking in ("atomic", "later"):
        return f"the tags of {len(unreadable)} could not be read, {unreadable[0]} among them"
    return None


def _weigh(work: Work, found: Sequence[CloudObject]) -> None:
    for begin in range(0, len(found), _BATCH):
        batch = found[begin : begin + _BATCH]
        cleanup, kind, cloud = _where(work)
        intents = [thing.mark.intent for thing in batch if thing.mark]
        with work.ledger.read() as tx:
            records = evidence.records(tx, cloud, intents)
            marked = suspects.of_page(tx, cloud, kind, [thing.cid for thing in batch])
            seen = evidence.sighted(tx, cleanup, cloud, kind, intents)
        now = work.moment
        for thing in batch:
            record = records.get(thing.mark.intent) if thing.mark else None
            verdict = judge(thing, record, work.director_uuid, cloud, now)
            _note(work, thing, record, verdict, marked.get(thing.cid), now)
        for intent in _seen(kind, cloud, records.values()):
            if intent not in seen:
                work.write(insert("sightings", cleanup=cleanup, cloud=cloud, kind=kind, intent=intent))


def _seen(kind: str, cloud: str, records: object) -> Iterator[str]:
    for record in cast("Sequence[Record]", records):
        if (record.kind, record.cloud) == (kind, cloud) and (record.state in OPEN or record.state == "missing"):
            yield record.intent


def _note(
    work: Work, thing: CloudObject, record: Record | None, finding: Finding, mark: Suspect | None, now: float
) -> None:
    _count(work, finding)
    if finding.verdict in ("in_use", "foreign"):
        return
    since = _mark(work, thing, finding, mark, now)
    _found(work, finding, record, thing, since=since, doomed=bool(mark and mark.doomed))


def _mark(work: Work, thing: CloudObject, finding: Finding, mark: Suspect | None, now: float) -> float | None:
    """Since when it has been unused. Only what may be deleted is marked; what undo has saved stays so."""
    cleanup, kind, cloud = _where(work)
    if finding.action != "delete":
        if mark and mark.pinned:
            work.write(suspects.seen(cloud, kind, thing.cid, cleanup))
        return None
    if mark is None:
        intent = thing.mark.intent if thing.mark else ""
        values = {"intent": intent, "created_at": thing.created_at, "cleanup": cleanup}
        work.write(suspects.mark(cloud, kind, thing.cid, **values))  # type: ignore[arg-type]  # one dict for three
        work.say("cleanup.marked", f"{kind} {thing.cid}: {finding.reason}", cid=thing.cid)
        return now
    if mark.created_at is not None and mark.created_at != thing.created_at:
        work.write(suspects.restart(cloud, kind, thing.cid, created_at=thing.created_at, cleanup=cleanup))
        return now
    work.write(suspects.seen(cloud, kind, thing.cid, cleanup))
    return mark.since


def _weigh_absent(work: Work, record: Record) -> None:
    finding = judge_absent(record)
    if finding.verdict == "in_use":
        return
    if finding.verdict == "missing" and not _confirmed(work, record):
        return
    _count(work, finding)
    _found(work, finding, record, None)


def _confirmed(work: Work, record: Record) -> bool:
    """A row may have been filled in while the list was read; so the cloud is asked once more, but not for ever."""
    work.data["asked"] = work.data.get("asked", 0) + 1
    if work.data["asked"] > _CONFIRMED:
        return True
    work.data["calls"] += 1
    return work.cpi.find(cast(Kind, work.data["kind"]), Mark(work.director_uuid, record.intent)) is None


def _count(work: Work, finding: Finding) -> None:
    counts = work.data["counts"]
    counts[finding.verdict] = counts.get(finding.verdict, 0) + 1


def _found(
    work: Work,
    finding: Finding,
    record: Record | None,
    thing: CloudObject | None,
    *,
    since: float | None = None,
    doomed: bool = False,
) -> None:
    cleanup, kind, cloud = _where(work)
    intent = record.intent if record else thing.mark.intent if thing and thing.mark else None
    work.write(
        insert(
            "findings",
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


def _stop(work: Work, reason: str) -> Move:
    work.say("cleanup.stopped", f"{work.data['kind']}: {reason}")
    return _end(work, "stopped", reason)


def _end(work: Work, state: str, reason: str | None = None) -> Move:
    cleanup, kind, cloud = _where(work)
    told = {name: work.data.get(name, 0) for name in ("calls", "pages")}
    counts = work.data.get("counts", {})
    work.write(cleanups.surveyed(cleanup, cloud, kind, state, reason=reason, counts=counts, **told))
    work.write(delete("sightings", {"cleanup": cleanup, "cloud": cloud, "kind": kind}))
    if state == "done":
        words = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in sorted(counts.items()))
        work.say("cleanup.surveyed", f"{kind}: {words or 'nothing'}; {told['calls']} calls", **counts)
    return Done()
