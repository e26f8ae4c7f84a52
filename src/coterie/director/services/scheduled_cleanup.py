"""Scheduled cleanup: starts surveys by the clock, applies their plans if that is configured, and calls the hook (a
webhook that gets JSON, or a command that gets it on standard input)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import replace
from typing import Any

from coterie.cleanup import start
from coterie.cleanup.cron import Cron
from coterie.cleanup.options import within
from coterie.director.services.cleanups import options, show
from coterie.errors import CoterieError, UsageError
from coterie.ids import Ids
from coterie.ledger.rows import cleanups, events, identity
from coterie.ledger.rows.cleanups import CleanupRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time
from coterie.ledger.work import leases
from coterie.settings import Settings

log = logging.getLogger(__name__)
BY = "schedule"
_LOOK_S = 5.0
_TRIES = 3
_UNFINISHED = ("running", "cancelling")
_HOOKS = ("webhook", "command")
_NOTIFYING, _NOTIFYING_S = "cleanup hooks", 300.0  # longer than both hooks together may take for a few runs


class ScheduledCleanup:
    """One thread; it uses the database's clock, so several Directors may run one each."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._cron = Cron.read(settings["cleanup_schedule"]) if settings["cleanup_schedule"] else None
        self._hours = settings["cleanup_hours"] or ""
        if self._hours:
            within(self._hours, 0.0)
        self._since = self._now()
        self._holder = Ids().uuid()
        self._hooks = self._read_hooks()
        self._finished: set[int] = set()  # scheduled runs that need no sweep
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduled_cleanup", daemon=True)

    def start(self) -> None:
        if self._cron or self._has_hook():
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def run_due(self, now: float | None = None) -> None:
        """Start the cleanups that are due, and call the hook for those that have ended."""
        now = self._now() if now is None else now
        if self._cron is not None and (not self._hours or within(self._hours, now)):
            self._begin(self._cron, now)
            self._apply()
        if self._has_hook():
            self._notify_ended()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self.run_due()
            except CoterieError as error:
                log.warning("scheduled cleanup: %s", error)
            except Exception:
                log.exception("scheduled cleanup failed; trying again in %.0f s", _LOOK_S)

    def _begin(self, cron: Cron, now: float) -> None:
        with self._ledger.read() as tx:
            before = cleanups.last(tx, BY)
        due = cron.after(before.created_at if before else self._since)
        if due is not None and due <= now:
            number, task = start.survey(self._ledger, options(self._settings, {}), BY)
            log.info("task %s surveys the clouds for cleanup %s", task, number)

    def _apply(self) -> None:
        with self._ledger.read() as tx:
            run = cleanups.last(tx, BY)
            state = cleanups.task_end(tx, run.survey_task)[0] if run else None
        if run is None or run.sweep_task or run.id in self._finished or state in _UNFINISHED:
            return
        plan = start.read_plan(self._ledger, run.id)
        if not self._settings["cleanup_apply"] or not plan.items:
            self._finished.add(run.id)
            return
        task = start.apply(self._ledger, run.id, plan.id, BY)
        log.info("task %s sweeps what cleanup %s found", task, run.id)

    # -- the hook --

    def _has_hook(self) -> bool:
        return bool(self._hooks)

    def _read_hooks(self) -> dict[str, float]:
        """Each with the time since when it is configured so: a new one receives nothing of the past."""
        found = {hook: self._settings[f"cleanup_{hook}"] for hook in _HOOKS if self._settings[f"cleanup_{hook}"]}
        with self._ledger.write_silently() as tx:
            digests = {hook: hashlib.sha256(where.encode()).hexdigest() for hook, where in found.items()}
            return {hook: cleanups.hook_since(tx, hook, digest) for hook, digest in digests.items()}

    def _notify_ended(self) -> None:
        """One Director at a time: several may run on this database."""
        with self._ledger.write_silently() as tx:
            if not leases.take(tx, _NOTIFYING, self._holder, _NOTIFYING_S):
                return
        try:
            with self._ledger.read() as tx:
                runs = cleanups.list_unannounced(tx, _TRIES)
                ends = {run.id: cleanups.task_end(tx, run.sweep_task or run.survey_task) for run in runs}
            for run in runs:
                if ends[run.id][0] not in _UNFINISHED:
                    self._notify(run, *ends[run.id])
        finally:
            with self._ledger.write_silently() as tx:
                leases.release(tx, _NOTIFYING, self._holder)

    def _notify(self, run: CleanupRow, state: str | None, ended_at: float) -> None:
        """Each hook once; one that failed is tried again, the others are not."""
        word = "swept" if run.sweep_task else "planned"
        report, failed = self._report(run, word, state), False
        for hook, since in self._hooks.items():
            received = (run.received or {}).get(hook)
            if ended_at < since or received == word:
                continue
            try:
                notify_hook(hook, self._settings[f"cleanup_{hook}"], report)
            except CoterieError as error:
                failed = True
                log.warning("cleanup %s: %s", run.id, error)
                with self._ledger.write() as tx:
                    events.append(tx, [Event(None, "cleanup.untold", f"cleanup {run.id}", str(error))], time(tx))
                continue
            with self._ledger.write() as tx:
                run = replace(run, received={**(run.received or {}), hook: word})
                cleanups.record_received(tx, run, hook, word)
        with self._ledger.write() as tx:
            if failed:
                cleanups.count_failed_notice(tx, run.id)
            else:
                cleanups.record_notice(tx, run.id, word)

    def _report(self, run: CleanupRow, word: str, state: str | None) -> dict[str, Any]:
        shown = show(self._ledger, run.id)
        found: Counter[str] = Counter()
        for survey in shown["surveys"]:
            found.update(survey["counts"] or {})
        with self._ledger.write() as tx:
            cleanups.record_planned(tx, run.id, len(shown["plan"]["items"]))
            planned, director = cleanups.get(tx, run.id).planned, identity.director(tx)
        return {
            "event": f"cleanup.{word}",
            "director": {"name": director.name, "uuid": director.uuid},
            "cleanup": run.id,
            "state": state,
            "found": dict(found),
            "planned": planned,
            "stopped": shown["plan"]["stopped"],
            "outcomes": shown["outcomes"],
        }

    def _now(self) -> float:
        with self._ledger.read() as tx:
            return time(tx)


_WEBHOOK_S = 10.0
_COMMAND_S = 60.0
_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ")


def notify_hook(hook: str, where: str, report: dict[str, Any]) -> None:
    {"webhook": _post, "command": _run}[hook](where, json.dumps(report).encode())


def _post(url: str, body: bytes) -> None:
    if not url.startswith(("http://", "https://")):
        raise UsageError("cleanup_webhook is no http URL", remedy="give http://HOST/PATH or https://HOST/PATH")
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - checked above
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_WEBHOOK_S):
            return
    except urllib.error.HTTPError as error:
        raise _hook_failure("webhook", f"it answered {error.code}") from error
    except OSError as error:
        # The URL may hold a secret, and some errors repeat it.
        raise _hook_failure("webhook", type(error).__name__) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The results go to the configured host and to no other: a redirection is an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _run(command: str, body: bytes) -> None:
    # Without our other variables: they hold tokens and the database's address.
    env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        done = subprocess.run(
            shlex.split(command), input=body, capture_output=True, timeout=_COMMAND_S, check=False, env=env
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise _hook_failure("command", type(error).__name__) from error
    if done.returncode:
        raise _hook_failure("command", f"it ended with {done.returncode}")


def _hook_failure(what: str, why: str) -> CoterieError:
    return CoterieError(
        f"the cleanup {what} failed",
        why=why,
        remedy=f"check the setting cleanup_{what}; it is tried again a few times",
        retryable=True,
    )
