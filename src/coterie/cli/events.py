"""`coterie events`: what happened."""

from __future__ import annotations

import json

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
    if kind and task:
        raise UsageError("--kind chooses among the events of all tasks", remedy="leave out --task")
    without = None if everything else "look"  # its findings are events of their own
    if following:
        return _follow(session, task, kind, without)
    past = session.client.events.of_task(task) if task else session.client.events.list(kind=kind, without=without)
    found = past.listing(limit)
    if session.json:
        session.data(as_json(found))
        return 0
    for event in found["items"] if task else reversed(found["items"]):
        session.data(line(event))
    return 0


def _follow(session: Session, task: int | None, kind: str | None, without: str | None) -> int:
    try:
        for event in session.client.follow(task or None, kind=kind, without=without, timeout=session.timeout):
            if kind and event["kind"] != kind:
                continue  # of an older Director, which filters no stream
            session.data(json.dumps(event, ensure_ascii=False) if session.json else line(event))
    except KeyboardInterrupt:
        return 130
    except TimedOut as over:
        return over.exit_code
    return 0
