"""Runs of cleanup, their findings and the marks before a sweep, as the API and the metrics page show them."""

from __future__ import annotations

from collections import defaultdict

import sqlalchemy as sa

from coterie.ledger.store import Tx
from coterie.ledger.tables import cleanups, findings, surveys, suspects, tallies, tasks
from coterie.ledger.views.counts import Counts
from coterie.ledger.views.page import Page, Row, Slice, fetch, matching, when

_RUN = tuple(cleanups.c[name] for name in ("id", "options", "requested_by", "survey_task", "sweep_task", "created_at"))
_HIDDEN = ("cleanup", "doomed")
_FINDING = tuple(column for column in findings.c if column.name not in _HIDDEN)


def page(tx: Tx, part: Slice) -> Page:
    """Newest first."""
    found = fetch(tx, sa.select(*_RUN), [cleanups.c.id], part, newest_first=True)
    return Page([_view(tx, row) for row in found.items], found.next)


def one(tx: Tx, cleanup: int) -> Row:
    row = tx.execute(sa.select(*_RUN).where(cleanups.c.id == cleanup)).one()
    return {**_view(tx, dict(row._mapping)), "surveys": _surveys(tx, cleanup), "outcomes": _outcomes(tx, cleanup)}


def finding_page(tx: Tx, cleanup: int, part: Slice, **wanted: str | None) -> Page:
    """Filters: verdict, kind, cloud, outcome. In the order in which they were found."""
    query = matching(sa.select(*_FINDING), {findings.c[name]: value for name, value in wanted.items()})
    found = fetch(tx, query.where(findings.c.cleanup == cleanup), [findings.c.id], part)
    times = ("created_at", "since", "ended_at")
    return Page([{**row, **{name: when(row[name]) for name in times}} for row in found.items], found.next)


def mark_page(tx: Tx, part: Slice) -> Page:
    columns = [column for column in suspects.c if column.name != "cleanup"]
    found = fetch(tx, sa.select(*columns), [suspects.c.cloud, suspects.c.kind, suspects.c.cid], part)
    times = ("created_at", "since")
    return Page([{**row, **{name: when(row[name]) for name in times}} for row in found.items], found.next)


def found_by_kind(tx: Tx) -> Counts:
    """(cloud, kind, verdict) of the newest survey of each."""
    newest = sa.select(sa.func.max(surveys.c.cleanup)).where(surveys.c.state == "done")
    newest = newest.group_by(surveys.c.cloud, surveys.c.kind)
    query = sa.select(surveys.c.cloud, surveys.c.kind, surveys.c.counts).where(
        surveys.c.state == "done", surveys.c.cleanup.in_(newest)
    )
    rows = tx.execute(query.order_by(surveys.c.cleanup, surveys.c.cloud, surveys.c.kind)).all()
    return {(cloud, kind, verdict): n for cloud, kind, counts in rows for verdict, n in sorted((counts or {}).items())}


def kept_by_kind(tx: Tx) -> Counts:
    """(cloud, kind): what the newest surveys found and would not delete."""
    kept: Counts = defaultdict(float)
    for (cloud, kind, verdict), count in found_by_kind(tx).items():
        if verdict in ("keep", "drift", "missing"):
            kept[cloud, kind] += count
    return dict(kept)


def cleaned_by_kind(tx: Tx) -> Counts:
    """(cloud, kind): how many were ever deleted."""
    total: Counts = defaultdict(float)
    now = sa.select(findings.c.cloud, findings.c.kind, sa.func.count()).where(findings.c.outcome == "deleted")
    for query in (sa.select(tallies), now.group_by(findings.c.cloud, findings.c.kind)):
        for cloud, kind, count in tx.execute(query):
            total[cloud, kind] += count
    return dict(sorted(total.items()))


def _view(tx: Tx, row: Row) -> Row:
    return {**row, "state": _state(tx, row), "created_at": when(row["created_at"])}


def _state(tx: Tx, row: Row) -> str:
    """surveying · planned · sweeping · swept; or how the task ended that did not end well."""
    task = row["sweep_task"] or row["survey_task"]
    state = tx.execute(sa.select(tasks.c.state).where(tasks.c.id == task)).scalar()
    words = ("sweeping", "swept") if row["sweep_task"] else ("surveying", "planned")
    return {"running": words[0], "cancelling": words[0], "done": words[1], None: words[1]}.get(state) or str(state)


def _surveys(tx: Tx, cleanup: int) -> list[Row]:
    query = sa.select(surveys).where(surveys.c.cleanup == cleanup).order_by(surveys.c.cloud, surveys.c.kind)
    rows = [dict(row._mapping) for row in tx.execute(query)]
    return [{**row, "at": when(row["at"])} for row in rows if row.pop("cleanup")]


def _outcomes(tx: Tx, cleanup: int) -> dict[str, int]:
    query = sa.select(findings.c.outcome, sa.func.count()).where(
        findings.c.cleanup == cleanup, findings.c.outcome.is_not(None)
    )
    return dict(tx.execute(query.group_by(findings.c.outcome)).all())
