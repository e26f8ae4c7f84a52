"""`coterie version`."""

from __future__ import annotations

from coterie import __version__
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json


@verb("version")
def version(session: Session) -> None:
    """Print the version of this command, without a Director."""
    session.data(as_json({"version": __version__}) if session.json else f"coterie {__version__}")
