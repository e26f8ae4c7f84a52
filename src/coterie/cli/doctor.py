"""`coterie doctor`: what is wrong here, in one redacted report."""

from __future__ import annotations

import json
from typing import Any

import click

from coterie.cli.frame.documents import write_private
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json, table


@verb("doctor")
@click.option("--save", metavar="FILE", help="Write the whole report as JSON, to attach to a bug report.")
def doctor(session: Session, save: str | None) -> int:
    """Look at settings, state folder, local Director and reachability. Starts nothing; shows no secret. 1: findings."""
    from coterie.cli.link.examine import examine

    found = examine(session.settings)
    if save:
        write_private(save, as_json(found) + "\n")
        session.say(f"wrote {save}")
    if session.json:
        session.data(as_json(found))
    elif not save:
        _show(session, found)
    return 0 if all(one["ok"] for one in found["findings"]) else 1


def _show(session: Session, found: dict[str, Any]) -> None:
    rows = [(one["what"], one["ok"], one["detail"], one["remedy"]) for one in found["findings"]]
    session.data(table(("WHAT", "OK", "DETAIL", "REMEDY"), rows, session.paint, state=1))
    for line in [line for line in map(_log_line, found["log"]) if line][-5:]:
        session.data(line)


def _log_line(line: str) -> str:
    """A warning or error of the log in short; the rest is in the saved report."""
    try:
        entry = json.loads(line)
        return f"{entry['at']} {entry['level']} {entry['message']}" if entry["level"] != "info" else ""
    except (ValueError, KeyError, TypeError):
        return line
