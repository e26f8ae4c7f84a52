"""Lists one kind in one cloud, page by page, and weighs every object against the ledger, which is read after the page.

What is in use or foreign is only counted, so memory depends on what is wrong, not on what is there.
"""

from __future__ import annotations

from typing import Any

from coterie.cleanup.weigh import BATCH, Survey, SurveyProgress, SurveyWork, weigh, weigh_absent, where
from coterie.cpi.contract import CpiError, SurveyPage
from coterie.engine.flow import Done, Flow, Move, Next
from coterie.errors import CoterieError
from coterie.ledger.rows import cleanups, deletion_candidates, evidence

NOBODY = "ffffffff-ffff-4fff-bfff-ffffffffffff"  # no Director has it: a filter that works answers nothing


def _begin(work: SurveyWork) -> Move:
    can, kind = work.cpi.capabilities(), work.params.kind
    if "survey" in can.unsupported:
        return _stop(work, can.unsupported["survey"].why)
    if kind not in can.kinds:
        return _end(work, "absent")
    work.progress.started = work.moment
    if kind in can.filtered and _read_page(work, NOBODY, None).objects:
        return _stop(work, "the cloud ignores the filter by owner: a Director that does not exist has objects")
    return Next("page")


def _page(work: SurveyWork) -> Move:
    cursor = work.progress.cursor
    try:
        page = _read_page(work, work.director_uuid, cursor)
    except CpiError as error:
        if error.retryable:
            raise
        return _stop(work, f"the list broke off: {error}")
    flaw = _flaw(work, page, cursor)
    if flaw:
        return _stop(work, flaw)
    weigh(work, list({found.cid: found for found in page.objects}.values()))
    work.progress.cursor = page.next
    work.progress.pages += 1
    return Next("page" if page.next else "absent")


def _absent(work: SurveyWork) -> Move:
    """Rows that were there before the list was begun and are not in it."""
    cleanup, kind, cloud = where(work)
    started, after = work.progress.started or 0.0, work.progress.after
    with work.ledger.read() as tx:
        rows = evidence.unseen(tx, cleanup, cloud, kind, started, after, BATCH)
        outdated = deletion_candidates.outdated(tx, cloud, kind, cleanup)
    for record in rows:
        weigh_absent(work, record)
    if len(rows) == BATCH:
        work.progress.after = rows[-1].intent
        return Next("absent")
    work.write(*[deletion_candidates.clear(cloud, kind, cid) for cid in outdated])
    return _end(work, "done")


def _fail(work: SurveyWork, error: CoterieError) -> None:
    _stop(work, str(error))


def _read_page(work: SurveyWork, director: str, cursor: str | None) -> SurveyPage:
    page = work.cpi.survey(work.params.kind, director, cursor)
    work.progress.calls += page.calls
    return page


def _flaw(work: SurveyWork, page: SurveyPage, cursor: str | None) -> str | None:
    if not page.complete:
        return "the cloud's list is incomplete, so nothing is concluded from it"
    if page.next is not None and page.next == cursor:
        return "the cloud's list goes in circles"
    marking = work.cpi.capabilities().kinds.get(work.params.kind)
    unreadable = [found.cid for found in page.objects if found.mark is None and found.tags is None]
    if unreadable and marking in ("atomic", "later"):
        return f"the tags of {len(unreadable)} could not be read, {unreadable[0]} among them"
    return None


def _stop(work: SurveyWork, reason: str) -> Move:
    work.say("cleanup.stopped", f"{work.params.kind}: {reason}")
    return _end(work, "stopped", reason)


def _end(work: SurveyWork, state: str, reason: str | None = None) -> Move:
    cleanup, kind, cloud = where(work)
    progress = work.progress
    figures: dict[str, Any] = {"calls": progress.calls, "pages": progress.pages, "counts": progress.counts}
    work.write(*cleanups.end_survey(cleanup, cloud, kind, state, reason=reason, **figures))
    if state == "done":
        counts = sorted(progress.counts.items())
        words = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts)
        body = f"{kind}: {words or 'nothing'}; {progress.calls} calls"
        work.say("cleanup.surveyed", body, **progress.counts)
    return Done()


SURVEY = Flow("cleanup.survey", Survey, SurveyProgress, {"begin": _begin, "page": _page, "absent": _absent}, _fail)
