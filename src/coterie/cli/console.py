"""`coterie console`: opens the web console, logged in."""

from __future__ import annotations

import os
import sys

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json


@verb("console")
@click.option("--no-open", is_flag=True, help="Only print the link; start no browser.")
def console(session: Session, no_open: bool) -> None:
    """Open the web console in a browser, by a link that logs you in once, within two minutes.

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


def _has_display() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
