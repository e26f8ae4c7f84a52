"""`coterie local`: the local Director."""

from __future__ import annotations

from typing import Any

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields
from coterie.director.process.state_folder import StateFolder


@noun("local")
def local(session: Session) -> None:
    """The local Director: one per state folder, started by the first command that needs it."""
    _status(session)


@local.verb("status")
def status(session: Session) -> None:
    """Whether it runs, as which process and release, and what it is busy with."""
    _status(session)


@local.verb("stop")
def stop(session: Session) -> None:
    """End it in good order; unfinished tasks go on at the next start."""
    from coterie.cli.link.spawn import stop as end

    ended = end(StateFolder(session.settings.state))
    if session.json:
        session.data(as_json({"stopped": ended}))
    session.say("stopped" if ended else "no local Director runs")


def _status(session: Session) -> None:
    found = look(StateFolder(session.settings.state))
    if session.json:
        session.data(as_json(found))
        return
    session.data(fields(list(found.items()), session.paint))


def look(state_folder: StateFolder) -> dict[str, Any]:
    """Its status, without starting it."""
    from coterie.cli.link.local import info
    from coterie.director.process.state_folder import read_holder

    running = read_holder(state_folder.lock)
    found: dict[str, Any] = {"running": running is not None, "folder": str(state_folder.path)}
    if running is None:
        return found
    found |= {"pid": running.pid, "version": running.version, "socket": str(state_folder.socket)}
    try:
        unfinished = info(state_folder)["unfinished"]
    except OSError as error:
        return found | {"answers": False, "why": error.strerror or str(error)}
    return found | {"answers": True, "unfinished tasks": [task["id"] for task in unfinished]}
