"""`coterie events`: what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json
from coterie.cli.watch.lines import line
from coterie.client import TimedOut
from coterie.errors import UsageError


@verb("events")
@click.option("--task", type=int, metavar="N", help="Only those of one task.")
@click.option("--follow", "-f", "following", is_flag=True, help="Go on as they happen; Ctrl-C ends it.")
@click.option("--all", "everything", is_flag=True, help="The periodic looks too.")
@click.option("--kind", metavar="KIND", help="Only of this kind; `audit`: the record of changes.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many of the past.")
def events(session: Session, task: int | None, following: bool, everything: bool, kind: str | None, limit: int) -> int:
    """Print events, oldest first. With -o json and --follow: one JSON object per line."""
    if kind and (task or following):
        raise UsageError("--kind chooses among past events of all tasks", remedy="leave out --task and --follow")
    if following:
        return _follow(session, task, everything)
    past = session.client.events.of_task(task) if task else session.client.events.list(kind=kind)
    if session.json:
        session.data(as_json(past.listing(limit)))
        return 0
    found = list(islice((event for event in past if everything or not _routine(event)), limit))
    for event in found if task else reversed(found):
        session.data(line(event))
    return 0


def _routine(event: Mapping[str, Any]) -> bool:
    """A periodic look began or ended; its findings are events of their own."""
    return bool(event["kind"].startswith("task.") and event["subject"] == "look")


def _follow(session: Session, task: int | None, everything: bool) -> int:
    try:
        for event in session.client.follow(task or None, timeout=session.timeout):
            if session.json:
                session.data(json.dumps(event, ensure_ascii=False))
            elif everything or not _routine(event):
                session.data(line(event))
    except KeyboardInterrupt:
        return 130
    except TimedOut as over:
        return over.exit_code
    return 0
