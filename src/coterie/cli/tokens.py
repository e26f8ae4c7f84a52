"""`coterie tokens`: API tokens for a Director on TCP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from coterie.cli.frame.documents import write_private
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.director.process.state_folder import StateFolder
from coterie.settings import load


@noun("tokens")
def tokens(session: Session) -> None:
    """List API tokens; `create` or `revoke` one, or show your own name and role: `whoami`."""
    found = session.client.tokens.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["id"], one["name"], one["role"], _teams(one), one["state"], one["expires_at"], one["created_by"])
        for one in found["items"]
    ]
    session.data(table(("ID", "NAME", "ROLE", "TEAMS", "STATE", "EXPIRES", "BY"), rows, session.paint, state=4))


@tokens.verb("create")
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator", "admin"]), default="viewer", show_default=True)
@click.option("--team", "teams", multiple=True, metavar="NAME", help="Limit it to a team; may be repeated.")
@click.option("--days", type=click.IntRange(1, 3650), default=90, show_default=True, help="Valid for so long.")
@click.option("--save", metavar="FILE", help="Write the token there, for your eyes only, instead of showing it.")
def create(session: Session, name: str, role: Any, teams: tuple[str, ...], days: int, save: str | None) -> None:
    """Make a token for NAME. It is shown this once: only its hash is kept."""
    made = session.client.tokens.make(name=name, role=role, teams=teams or None, days=days)
    if save:
        write_private(save, made["text"] + "\n")
        session.say(f"wrote {save}")
    if session.json:
        session.data(as_json({name: value for name, value in made.items() if name != "text" or not save}))
    elif not save:
        session.data(made["text"])
    session.say(f"token {made['id']} for {name}: {role}, valid until {made['expires_at']}")


@tokens.verb("revoke")
@click.argument("token", metavar="ID")
def revoke(session: Session, token: str) -> None:
    """From now on it opens nothing; for good."""
    session.client.tokens.revoke(token)
    session.say(f"token {token} is revoked")


@tokens.verb("whoami")
def whoami(session: Session) -> None:
    """Show your name and role as the Director sees them, and what you may do."""
    me = session.client.tokens.whoami()
    session.data(as_json(me) if session.json else fields(list({**me, "teams": _teams(me)}.items()), session.paint))


@tokens.verb("bootstrap")
@click.option("--database", metavar="URL", help="Of the Director; default: as configured, or in the state folder.")
@click.option("--save", metavar="FILE", help="Where to write it; default: `token` in the state folder.")
def bootstrap(session: Session, database: str | None, save: str | None) -> None:
    """Make an admin token straight in the database, on a Director's machine: the first one, or when all are lost.

    Written to a file for your eyes only, and shown nowhere.
    """
    from coterie.conductor.startup import connect
    from coterie.director.access.bootstrap import bootstrap as make

    settings = load({"database": database})
    state_folder = StateFolder(settings.state)
    state_folder.prepare()
    ledger = connect(settings["database"] or state_folder.database)
    try:
        file = Path(save) if save else state_folder.token
        made = make(ledger, file)
    finally:
        ledger.close()
    if session.json:
        session.data(as_json({"id": made, "file": str(file)}))
    session.say(f"admin token {made} is in {file}")


def _teams(one: Mapping[str, Any]) -> str:
    return "(all)" if one["teams"] is None else ", ".join(one["teams"])
