"""Which history the periodic look deletes, and which it keeps."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from coterie.cleanup import start as cleaning
from coterie.cleanup.options import Options
from coterie.director.services.periodic_look import PeriodicLook
from coterie.ledger.rows import events
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.ledger.tables import events as events_table
from coterie.ledger.tables import stages, steps, tasks
from tests.requests.site import group, manifest, site

DAY_S = 86400.0


def test_old_tasks_and_events_are_forgotten_and_younger_or_unfinished_ones_are_not(
    ledger: Ledger, tmp_path: Path
) -> None:
    with site(ledger, tmp_path) as here:
        old, young = (here.deploy(manifest(group("a", count))) for count in (1, 2))
        survey = cleaning.survey(ledger, Options(), None)[1]
        here.wait(survey)
        here.conductor.drain(5.0)
        with ledger.write() as tx:
            at = time(tx)
            unfinished = _made(tx, "running", None, at - 900 * DAY_S)
            for number in range(250):
                _made(tx, "done", at - 40 * DAY_S, at - 41 * DAY_S, n=number)
            events.append(tx, [Event(None, "access.refused", "then", "")], at - 40 * DAY_S)
            events.append(tx, [Event(None, "access.refused", "now", "")], at)
            aged = tasks.c.id.in_((old, survey))
            tx.execute(tasks.update().where(aged).values(ended_at=tasks.c.ended_at - 31 * DAY_S))
        PeriodicLook(ledger, 0, keep_days=30).look_once()
        with ledger.read() as tx:
            left = set(tx.execute(sa.select(tasks.c.id).where(tasks.c.kind != "look")).scalars())
            remains = {
                table.name: tx.execute(sa.select(sa.func.count()).where(table.c.task == old)).scalar_one()
                for table in (steps, stages, events_table)
            }
            subjects = (
                tx.execute(sa.select(events_table.c.subject).where(events_table.c.task.is_(None))).scalars().all()
            )
        assert left == {young, survey, unfinished}  # a survey's task goes with its cleanup
        assert remains == {"steps": 0, "stages": 0, "events": 0}
        assert "now" in subjects
        assert "then" not in subjects


def test_nothing_is_forgotten_where_history_is_kept_for_ever(ledger: Ledger) -> None:
    with ledger.write() as tx:
        task = _made(tx, "done", 1.0, 1.0)
    PeriodicLook(ledger, 0, keep_days=0).look_once()
    with ledger.read() as tx:
        assert tx.execute(sa.select(tasks.c.id)).scalars().all() == [task]


def _made(tx: sa.Connection, state: str, ended: float | None, created: float, n: int = 0) -> int:
    made = tasks.insert().values(kind="deploy", state=state, created_at=created, ended_at=ended, events=n)
    found: int = tx.execute(made.returning(tasks.c.id)).scalar_one()
    return found
