"""`coterie local`: the local Director."""

from __future__ import annotations

from typing import Any

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.data import as_json
from coterie.cli.show.table import fields
from coterie.director.process.home import Home


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

    ended = end(Home(session.settings.state))
    if session.json:
        session.data(as_json({"stopped": ended}))
    session.say("stopped" if ended else "no local Director runs")


def _status(session: Session) -> None:
    found = look(Home(session.settings.state))
    if session.json:
        session.data(as_json(found))
        return
    session.data(fields(list(found.items()), session.paint))


def look(home: Home) -> dict[str, Any]:
    """What can be said of it without starting it."""
    from coterie.cli.link.local import info
    from coterie.director.process.lock import holder

    who = holder(home.lock)
    found: dict[str, Any] = {"running": who is not None, "folder": str(home.folder)}
    if who is None:
        return found
    found |= {"pid": who.pid, "version": who.version, "socket": str(home.socket)}
    try:
        unfinished = info(home)["unfinished"]
    except OSError as error:
        return found | {"answers": False, "why": error.strerror or str(error)}
    return found | {"answers": True, "unfinished tasks": [task["id"] for task in unfinished]}
