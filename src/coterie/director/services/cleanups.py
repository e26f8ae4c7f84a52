"""Requests for cleanups: checks the caller and calls `cleanup`, which decides."""

from __future__ import annotations

from typing import Any

from coterie.cleanup import start
from coterie.cleanup.options import DAY_S, Options
from coterie.director.access import caller, teams
from coterie.director.context import AppContext
from coterie.errors import Conflict
from coterie.ledger.rows import cleanups
from coterie.ledger.store import Ledger
from coterie.ledger.views.cleanups import finding_page, one
from coterie.ledger.views.page import Page, Slice, when
from coterie.requests.operations import abandon as abandon_deployment
from coterie.settings import Settings


def options(settings: Settings, given: dict[str, Any]) -> Options:
    """The caller's values, else those of this Director's settings."""
    configured = {
        "grace_s": settings["cleanup_grace_hours"] * 3600.0,
        "undo_s": settings["cleanup_undo_days"] * DAY_S,
        "disks": settings["cleanup_disks"],
        "keep_stemcells": settings["cleanup_keep_stemcells"],
        "cap": settings["cleanup_cap"],
        "cap_percent": settings["cleanup_cap_percent"],
        "rate": settings["cleanup_rate"],
        "hours": settings["cleanup_hours"] or "",
    }
    return Options.of_wire({**configured, **{name: value for name, value in given.items() if value is not None}})


def survey(context: AppContext, given: dict[str, Any]) -> dict[str, int]:
    number, task = start.survey(context.ledger, options(context.settings, given), caller.current().identity)
    return {"cleanup": number, "task_id": task}


def apply(context: AppContext, cleanup: int, plan: str, items: list[dict[str, Any]] | None) -> int:
    return start.apply(context.ledger, cleanup, plan, caller.current().identity, items)


def undo(context: AppContext, names: list[str]) -> list[dict[str, Any]]:
    return start.undo(context.ledger, names)


def abandon(context: AppContext, name: str) -> None:
    teams.require_own(context.ledger, name)
    abandon_deployment(context.ledger, name)


def show(ledger: Ledger, cleanup: int) -> dict[str, Any]:
    """The run and, once its survey has ended, its plan."""
    with ledger.read() as tx:
        cleanups.get(tx, cleanup)
        run = one(tx, cleanup)
    return {**run, "plan": _plan(ledger, cleanup)}


def findings(ledger: Ledger, cleanup: int, part: Slice, **wanted: str | None) -> Page:
    """Each with its part of the plan: the action, or the reason why there is none."""
    with ledger.read() as tx:
        cleanups.get(tx, cleanup)
        found = finding_page(tx, cleanup, part, **wanted)
    try:
        made = start.read_plan(ledger, cleanup)
    except Conflict:
        return found
    planned = {row.id: {"action": row.action, "reason": row.reason} for row in (*made.items, *made.rest)}
    rows = [{**row, **planned[row["id"]]} for row in found.items]
    return Page(rows, found.next)


def _plan(ledger: Ledger, cleanup: int) -> dict[str, Any] | None:
    try:
        made = start.read_plan(ledger, cleanup).wire()
    except Conflict:
        return None
    return {**made, "made_at": when(made["made_at"]), "expires_at": when(made["expires_at"])}
