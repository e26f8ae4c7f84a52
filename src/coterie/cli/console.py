"""`coterie console`: opens the web console, logged in; lists and ends sessions."""

from __future__ import annotations

import os
import sys

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table
from coterie.errors import UsageError


@noun("console")
@click.option("--no-open", is_flag=True, help="Only print the link; start no browser.")
def console(session: Session, no_open: bool) -> None:
    """Open the web console in a browser, by a link that logs you in once, within two minutes; show who is logged in:
    `sessions`, or `end` sessions.

    The local Director begins to listen on a port of 127.0.0.1 for it, until it ends; callers have to log in there.
    """
    made = session.client.console.make_link()
    link = f"{made['origin'] or str(session.settings['director']).rstrip('/')}{made['path']}"
    if session.json:
        session.data(as_json({"link": link}))
    else:
        session.data(link)
    if no_open or session.json:
        return
    import webbrowser

    # Without a display the webbrowser module takes a text browser, which would fill the terminal.
    if not _has_display() or not webbrowser.open(link):
        session.say("no browser was started: open the link yourself, from another machine through `ssh -L`")


@console.verb("sessions")
@click.option("--user", metavar="NAME", help="Only those of this user.")
def sessions(session: Session, user: str | None) -> None:
    """List the sessions of the web console: who is logged in, since when and how long. Takes an admin."""
    found = session.client.console.list_sessions(name=user).listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["id"], one["name"], one["role"], one["how"], one["state"], one["created_at"], one["expires_at"])
        for one in found["items"]
    ]
    session.data(table(("ID", "USER", "ROLE", "BY", "STATE", "SINCE", "ENDS"), rows, session.paint, state=4))


@console.verb("end")
@click.argument("sessions", metavar="[ID]...", nargs=-1)
@click.option("--user", metavar="NAME", help="End all of this user.")
@click.option("--all", "everyone", is_flag=True, help="End those of all users.")
def end(session: Session, sessions: tuple[str, ...], user: str | None, everyone: bool) -> None:
    """End sessions of the web console, your own or other users'. Takes an admin.

    Their browsers have to log in again, which their users can do, unless you also revoke the token: `coterie tokens
    revoke`.
    """
    if [bool(sessions), bool(user), everyone].count(True) != 1:
        raise UsageError("whose sessions?", remedy="name some by their ids, or say --user NAME, or --all")
    for one in sessions:
        session.client.console.end_session(one)
        session.say(f"session {one} is ended")
    if not sessions:
        ended = session.client.console.end_sessions(name=user)["ended"]
        session.say(f"{ended} session{'' if ended == 1 else 's'} of {user or 'all users'} ended")


def _has_display() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
