"""`coterie tasks`: what is being done, and what was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table
from coterie.cli.watch.report import report
from coterie.cli.watch.task import FAILED
from coterie.cli.watch.task import watch as watch_task
from coterie.director.services.states import TaskState
from coterie.times import ago, took

_MOST = 50


@noun("tasks")
@click.option("--deployment", metavar="NAME")
@click.option("--state", type=click.Choice(get_args(TaskState)))
@click.option("--all", "everything", is_flag=True, help="The periodic looks too.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
def tasks(session: Session, limit: int, everything: bool, **wanted: Any) -> None:
    """List tasks, newest first; `show`, `watch` or `cancel` one."""
    found = session.client.tasks.list(**wanted, without=None if everything else "look").listing(limit)
    if session.json:
        session.data(as_json(found))
        return
    headers = ("TASK", "KIND", "DEPLOYMENT", "STATE", "STEPS", "FAILED", "STARTED", "TOOK")
    session.data(table(headers, [_row(task) for task in found["items"]], session.paint, state=3))


@tasks.verb("show")
@click.argument("task", type=int)
def show(session: Session, task: int) -> None:
    """One task: its stages, its report, and why it waits."""
    found = session.client.tasks.get(task)
    if session.json:
        session.data(as_json(found))
        return
    session.data(report(found, session.paint))
    rows = [
        (
            one["name"],
            one["state"],
            f"{one['ended'] - one.get('cancelled_steps', 0)}/{one['total']}",
            one["failed"],
            one["max_in_flight"] or "all",
        )
        for one in found["stages"]
    ]
    if rows:
        session.data("\n" + table(("STAGE", "STATE", "STEPS", "FAILED", "AT ONCE"), rows, session.paint, state=1))
    if found["ended_at"] is None:
        _show_running(session, task)


def _show_running(session: Session, task: int) -> None:
    """Running tasks, and the conductors that run their steps."""
    steps = session.client.tasks.steps(task, state="running").listing(_MOST)["items"]
    rows = [(one["subject"], one["flow"], one["label"], one["attempt"], one["owner"]) for one in steps]
    if rows:
        session.data("\n" + table(("WORKS ON", "FLOW", "STEP", "ATTEMPT", "CONDUCTOR"), rows, session.paint))


@tasks.verb("watch")
@click.argument("task", type=int)
def watch(session: Session, task: int) -> int:
    """Follow a task to its end, from its beginning."""
    return watch_task(session, task)


@tasks.verb("cancel")
@click.argument("task", type=int)
def cancel(session: Session, task: int) -> int:
    """Start no new step of a task; what runs ends first."""
    session.client.tasks.cancel(task)
    session.say(f"task {task} is being cancelled")
    if not session.wait:
        return 0
    code = watch_task(session, task)
    # Cancelled is the requested result.
    return 0 if code == FAILED and _state(session, task) == "cancelled" else code


def _state(session: Session, task: int) -> str:
    return str(session.client.tasks.get(task)["state"])


def _row(task: Mapping[str, Any]) -> tuple[Any, ...]:
    steps = task["steps"]
    names = ("id", "kind", "deployment", "state")
    progress = f"{steps['ended']}/{steps['total']}"
    when = (ago(task["created_at"]), took(task["created_at"], task["ended_at"]))
    return (*[task[name] for name in names], progress, steps["failed"], *when)
