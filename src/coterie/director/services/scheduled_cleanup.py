"""Cleanup by the clock: starts the scheduled ones, applies their plans where that is wished for, and tells the hook."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import Any

from coterie.cleanup import start
from coterie.cleanup.cron import Cron
from coterie.cleanup.options import within
from coterie.director.services import cleanup_hook
from coterie.director.services import cleanups as cleaning
from coterie.errors import CoterieError
from coterie.ledger.rows import cleanups, events, identity
from coterie.ledger.rows.cleanups import CleanupRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.settings import Settings

log = logging.getLogger(__name__)
BY = "schedule"
_LOOK_S = 5.0
_TRIES = 3
_UNFINISHED = ("running", "cancelling")


class Housekeeper:
    """One thread; the database's clock decides, so many Directors may run one."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._cron = Cron.read(settings["cleanup_schedule"]) if settings["cleanup_schedule"] else None
        self._hours = settings["cleanup_hours"] or ""
        if self._hours:
            within(self._hours, 0.0)
        self._since = self._now()
        self._settled: set[int] = set()  # scheduled runs that need no sweep
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="housekeeper", daemon=True)

    def start(self) -> None:
        if self._cron or self._told():
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def round(self, now: float | None = None) -> None:
        """What is due now is begun; what has ended is told."""
        now = self._now() if now is None else now
        if self._cron is not None and (not self._hours or within(self._hours, now)):
            self._begin(self._cron, now)
            self._apply()
        if self._told():
            self._tell()

    def _live(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self.round()
            except CoterieError as error:
                log.warning("scheduled cleanup: %s", error)
            except Exception:
                log.exception("scheduled cleanup failed; trying again in %.0f s", _LOOK_S)

    def _begin(self, cron: Cron, now: float) -> None:
        with self._ledger.read() as tx:
            before = cleanups.last(tx, BY)
        due = cron.after(before.created_at if before else self._since)
        if due is not None and due <= now:
            number, task = start.survey(self._ledger, cleaning.options(self._settings, {}), BY)
            log.info("task %s surveys the clouds for cleanup %s", task, number)

    def _apply(self) -> None:
        with self._ledger.read() as tx:
            run = cleanups.last(tx, BY)
            state = cleanups.task_end(tx, run.survey_task)[0] if run else None
        if run is None or run.sweep_task or run.id in self._settled or state in _UNFINISHED:
            return
        plan = start.read_plan(self._ledger, run.id)
        if not self._settings["cleanup_apply"] or not plan.items:
            self._settled.add(run.id)
            return
        task = start.apply(self._ledger, run.id, plan.id, BY)
        log.info("task %s sweeps what cleanup %s found", task, run.id)

    # -- the hook --

    def _told(self) -> bool:
        return bool(self._settings["cleanup_webhook"] or self._settings["cleanup_command"])

    def _tell(self) -> None:
        with self._ledger.read() as tx:
            runs = cleanups.list_unannounced(tx, _TRIES)
            states = {run.id: cleanups.task_end(tx, run.sweep_task or run.survey_task)[0] for run in runs}
        for run in runs:
            if states[run.id] not in _UNFINISHED:
                self._tell_of(run, states[run.id])

    def _tell_of(self, run: CleanupRow, state: str | None) -> None:
        word = "swept" if run.sweep_task else "planned"
        try:
            cleanup_hook.notify(
                self._settings["cleanup_webhook"], self._settings["cleanup_command"], self._news(run, word, state)
            )
        except CoterieError as error:
            log.warning("cleanup %s: %s", run.id, error)
            with self._ledger.write() as tx:
                cleanups.count_failed_notice(tx, run.id)
                events.append(tx, [Event(None, "cleanup.untold", f"cleanup {run.id}", str(error))], time(tx))
            return
        with self._ledger.write() as tx:
            cleanups.record_notice(tx, run.id, word)

    def _news(self, run: CleanupRow, word: str, state: str | None) -> dict[str, Any]:
        shown = cleaning.show(self._ledger, run.id)
        found: Counter[str] = Counter()
        for survey in shown["surveys"]:
            found.update(survey["counts"] or {})
        with self._ledger.read() as tx:
            director = identity.director(tx)
        return {
            "event": f"cleanup.{word}",
            "director": {"name": director.name, "uuid": director.uuid},
            "cleanup": run.id,
            "state": state,
            "found": dict(found),
            "planned": len(shown["plan"]["items"]),
            "stopped": shown["plan"]["stopped"],
            "outcomes": shown["outcomes"],
        }

    def _now(self) -> float:
        with self._ledger.read() as tx:
            return time(tx)
