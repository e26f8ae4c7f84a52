"""Follows one task to its end, or leaves it: the task runs in the Director, and does not need the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from coterie.cli.frame.session import Session
from coterie.cli.watch.lines import Lines, Progress, Silent
from coterie.cli.watch.report import report
from coterie.client import TimedOut

FAILED, TIMED_OUT, INTERRUPTED = 1, 9, 130


def watch_or_leave(session: Session, task: int) -> int:
    """After work was started: follow it, or only say where it can be followed (--no-wait)."""
    if session.wait:
        return watch(session, task)
    session.say(f"task {task} runs; follow it with: coterie tasks watch {task}")
    if session.json:
        show(session, session.client.tasks.get(task))
    return 0


def watch(session: Session, task: int) -> int:
    """The exit code: 0 done, 1 failed or cancelled, 9 time is up, 130 interrupted; the last two leave it running."""
    left = _follow_to_end(session, task)
    if left is not None:
        return left
    ended = session.client.tasks.get(task)
    show(session, ended)
    return 0 if ended["state"] == "done" else FAILED


def watch_quietly(session: Session, task: int) -> int:
    """As `watch`, for work whose result the verb shows itself."""
    left = _follow_to_end(session, task)
    if left is not None:
        return left
    return 0 if session.client.tasks.get(task)["state"] == "done" else FAILED


def show(session: Session, task: Mapping[str, Any]) -> None:
    if session.json:
        from coterie.cli.show.table import as_json

        session.data(as_json(task))
    elif not session.quiet or task["state"] == "failed":
        session.data(report(task, session.paint))


def _follow_to_end(session: Session, task: int) -> int | None:
    """None when the task has ended, else the exit code for a task that is left running."""
    try:
        _follow(session, task)
    except KeyboardInterrupt:
        return _leave_running(session, task, "interrupted", INTERRUPTED)
    except TimedOut:
        return _leave_running(session, task, f"not ended within {session.timeout:g} s", TIMED_OUT)
    return None


def _follow(session: Session, task: int) -> None:
    with _progress(session, task) as progress:
        for event in session.client.follow(task, timeout=session.timeout):
            progress.event(event)


def _progress(session: Session, task: int) -> Progress:
    if session.quiet:
        return Silent()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from coterie.cli.watch.live import Live

        return Live(session.client, task, no_color=session.settings["color"] == "never")
    return Lines(session.say)


def _leave_running(session: Session, task: int, why: str, code: int) -> int:
    goes_on = "goes on when a Director runs again" if session.foreground else "goes on"
    session.say(f"{why}: task {task} {goes_on}; follow it with: coterie tasks watch {task}")
    return code
