"""Lists one kind in one cloud, page by page, and weighs every object against the ledger, which is read after the page.

What is in use or foreign is only counted, so memory depends on what is wrong, not on what is there.
"""

from __future__ import annotations

from typing import ClassVar, cast

from coterie.cleanup.weigh import BATCH, weigh, weigh_absent, where
from coterie.cpi.contract import CpiError, Kind, SurveyPage
from coterie.engine.flow import Done, Flow, Move, Next, Work
from coterie.errors import CoterieError
from coterie.ledger.rows import cleanups, deletion_candidates, evidence

NOBODY = "ffffffff-ffff-4fff-bfff-ffffffffffff"  # no Director has it: a filter that works answers nothing


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
        weigh(work, list({found.cid: found for found in page.objects}.values()))
        work.data.update(cursor=page.next, pages=work.data["pages"] + 1)
        return Next("page" if page.next else "absent")

    def absent(self, work: Work) -> Move:
        """Rows that were there before the list was begun and are not in it."""
        cleanup, kind, cloud = where(work)
        with work.ledger.read() as tx:
            rows = evidence.unseen(tx, cleanup, cloud, kind, work.data["started"], work.data["after"], BATCH)
            outdated = deletion_candidates.outdated(tx, cloud, kind, cleanup)
        for record in rows:
            weigh_absent(work, record)
        if len(rows) == BATCH:
            work.data["after"] = rows[-1].intent
            return Next("absent")
        work.write(*[deletion_candidates.clear(cloud, kind, cid) for cid in outdated])
        return _end(work, "done")

    def failed(self, work: Work, error: CoterieError) -> None:
        _stop(work, str(error))

    def _page(self, work: Work, director: str, cursor: str | None) -> SurveyPage:
        page = work.cpi.survey(cast(Kind, work.data["kind"]), director, cursor)
        work.data["calls"] += page.calls
        return page


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


def _stop(work: Work, reason: str) -> Move:
    work.say("cleanup.stopped", f"{work.data['kind']}: {reason}")
    return _end(work, "stopped", reason)


def _end(work: Work, state: str, reason: str | None = None) -> Move:
    cleanup, kind, cloud = where(work)
    calls, pages, counts = work.data.get("calls", 0), work.data.get("pages", 0), work.data.get("counts", {})
    result = {"reason": reason, "counts": counts, "calls": calls, "pages": pages}
    work.write(*cleanups.end_survey(cleanup, cloud, kind, state, **result))
    if state == "done":
        words = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in sorted(counts.items()))
        work.say("cleanup.surveyed", f"{kind}: {words or 'nothing'}; {calls} calls", **counts)
    return Done()
