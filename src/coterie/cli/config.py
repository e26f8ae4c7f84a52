"""`coterie config`: settings and where each came from."""

from __future__ import annotations

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table


@noun("config")
def config(session: Session) -> None:
    """Show the settings of this command, and where each came from."""
    _show(session)


@config.verb("show")
def show(session: Session) -> None:
    """Every setting: value and origin, and the files that were looked at. Secrets are hidden."""
    _show(session)


def _show(session: Session) -> None:
    facts = session.settings.facts()
    if session.json:
        session.data(as_json(facts))
        return
    rows = [(one["name"], one["value"], one["origin"], one["variable"], one["help"]) for one in facts["settings"]]
    session.data(table(("SETTING", "VALUE", "FROM", "VARIABLE", "FOR"), rows, session.paint))
    for file in facts["files"]:
        session.say(f"\nlooked at {file['path']}: {'read' if file['found'] else 'not there'}")
