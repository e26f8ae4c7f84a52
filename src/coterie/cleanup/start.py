"""Starts surveys and sweeps as tasks, one at a time; `undo` saves what is in its undo window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cleanup.clock import note_clock
from coterie.cleanup.options import DELETION_ORDER, Options
from coterie.cleanup.plan import CleanupPlan, make_plan
from coterie.cleanup.stages import reclaims, sweep_stages
from coterie.cleanup.survey import SURVEY, Survey
from coterie.errors import Conflict, NotFound, StalePlan
from coterie.ledger.rows import alarms, cleanups, clouds, deletion_candidates, identity, objects
from coterie.ledger.rows.cleanups import CleanupRow
from coterie.ledger.store import Ledger, Tx, time
from coterie.ledger.work import conductors, tasks
from coterie.ledger.work.tasks import NewStage, NewTask

_REMEMBERED = 50  # runs


def survey(ledger: Ledger, options: Options, by: str | None) -> tuple[int, int]:
    """(cleanup, task). Lists every kind of every cloud that is meant; changes none of them. Clouds without a living
    conductor are left out, and the plan says so: a survey does not wait for a site that is gone."""
    note_clock(ledger)
    with ledger.write() as tx:
        cleanups.refuse_second(tx)
        meant = _meant(tx, options)
        served = _served(tx, meant)
        cleanups.forget_old(tx, _REMEMBERED)
        number = cleanups.add(tx, options.wire(), by)
        steps = []
        for name, cloud in meant.items():
            for kind in DELETION_ORDER:
                if kind in (options.kinds or DELETION_ORDER) and kind not in options.not_kinds:
                    obstacle = None if name in served else "no conductor is alive for it"
                    cleanups.start_survey(tx, number, name, kind, obstacle)
                    if obstacle is None:
                        steps.append(SURVEY.step(Survey(number, kind), f"{kind}@{name}", cloud))
        stage = NewStage("survey", steps, max_in_flight=8)
        task = tasks.create(tx, NewTask("survey", None, [stage], requested_by=by, opening=f"cleanup {number}"))
        cleanups.set_survey_task(tx, number, task)
        return number, task


def read_plan(ledger: Ledger, cleanup: int) -> CleanupPlan:
    with ledger.read() as tx:
        return _make_plan(tx, cleanups.get(tx, cleanup))


def apply(
    ledger: Ledger, cleanup: int, plan: str, by: str | None, items: Sequence[Mapping[str, Any]] | None = None
) -> int:
    """The task that carries out the plan of this run, if it is the very plan that was looked at.

    `items`: those that were confirmed, in the form of the plan's `wire`. None: the caller confirmed the id only.
    """
    with ledger.write() as tx:
        row = cleanups.get(tx, cleanup)
        if row.sweep_task is not None:
            raise Conflict(
                f"cleanup {cleanup} was applied already, by task {row.sweep_task}",
                remedy="run a new one: coterie cleanup --save FILE",
                details={"task_id": row.sweep_task},
            )
        cleanups.refuse_second(tx)
        current = _make_plan(tx, row)
        _refuse_stale(current, plan, time(tx))
        if items is not None and current.id_with(items) != current.id:
            raise StalePlan(
                f"what was confirmed is not the plan of cleanup {cleanup}",
                why="its items are others: the file was edited",
                remedy="make a new one: coterie cleanup --save FILE; to leave objects out, use its filters",
            )
        alarms.refuse(tx, {item.cloud for item in current.items})
        options = Options.of_wire(row.options)
        started = reclaims(tx, current.items, by)
        new = NewTask(
            "sweep",
            None,
            sweep_stages(tx, current.items, options, started),
            plan={"cleanup": cleanup, "plan": current.id},
            requested_by=by,
            opening=f"cleanup {cleanup}: {len(current.items)} to do",
        )
        task = tasks.create(tx, new)
        cleanups.set_sweep_task(tx, cleanup, task)
        cleanups.record_planned(tx, cleanup, len(current.items))
        return task


def undo(ledger: Ledger, names: Sequence[str]) -> list[dict[str, Any]]:
    """Save disks and snapshots from their undo window: those named by CID or intent, or (none named) all of them."""
    with ledger.write() as tx:
        kept = objects.kept_ones(tx)
        chosen = [row for row in kept if not names or row.cid in names or row.intent in names]
        unknown = sorted(set(names) - {row.cid for row in chosen} - {row.intent for row in chosen})
        if unknown:
            raise NotFound(
                f"{unknown[0]} is not kept for undo",
                why="it is in use, gone, or no disk of ours",
                remedy="see `coterie cleanup status` and `coterie disks --state kept`",
            )
        for row in chosen:
            deletion_candidates.pin(tx, row.cloud, row.kind, row.cid or "", intent=row.intent)
        return [{"intent": row.intent, "cid": row.cid, "kind": row.kind, "cloud": row.cloud} for row in chosen]


def _meant(tx: Tx, options: Options) -> dict[str, clouds.CloudRow]:
    present = clouds.all_clouds(tx)
    unknown = sorted((set(options.clouds) | set(options.not_clouds)) - present.keys())
    if unknown:
        raise NotFound(f"no cloud {unknown[0]!r}", remedy="list them with `coterie clouds`")
    return {
        name: row
        for name, row in present.items()
        if name in (options.clouds or present) and name not in options.not_clouds
    }


def _served(tx: Tx, meant: Mapping[str, clouds.CloudRow]) -> set[str]:
    """Those with a living conductor; if none has one, that is an error with its remedy."""
    fleet = conductors.living(tx)
    served = {name for name, row in meant.items() if fleet.table(row.conductor_group, row.driver, SURVEY.name).members}
    if meant and not served:
        first = meant[min(meant)]
        raise fleet.refusal(first.conductor_group, first.driver)
    return served


def _make_plan(tx: Tx, row: CleanupRow) -> CleanupPlan:
    state, at = cleanups.task_end(tx, row.survey_task)
    if state in ("running", "cancelling"):
        raise Conflict(
            f"cleanup {row.id} is still surveying",
            remedy=f"wait for it: coterie tasks watch {row.survey_task}",
            retryable=True,
        )
    pinned = frozenset((s["cloud"], s["kind"], s["cid"]) for s in deletion_candidates.list_all(tx) if s["pinned"])
    found, surveys = cleanups.all_findings(tx, row.id), cleanups.all_surveys(tx, row.id)
    director = identity.director(tx).uuid
    return make_plan(row.id, director, at, Options.of_wire(row.options), found, surveys, pinned)


def _refuse_stale(current: CleanupPlan, plan: str, now: float) -> None:
    if current.id != plan:
        raise StalePlan(
            f"this is not the plan of cleanup {current.cleanup}",
            why=f"its plan is {current.id} now: the file was edited, or undo has saved something since",
            remedy="make a new one: coterie cleanup --save FILE",
        )
    if now > current.expires_at:
        raise StalePlan(
            f"the plan of cleanup {current.cleanup} has expired",
            why=f"it was good until {current.expires_at:.0f} s since 1970",
            remedy="make a new one: coterie cleanup --save FILE",
        )
