"""`coterie conductors`: who runs the work."""

from __future__ import annotations

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.data import as_json
from coterie.cli.show.table import table
from coterie.cli.show.times import ago


@verb("conductors")
def conductors(session: Session) -> None:
    """List conductors: group, drivers, release, how many steps each runs, when it was last heard of."""
    found = session.api.list("/v1/conductors")
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["name"], one["conductor_group"], one["drivers"], one["release"], one["running"], ago(one["heartbeat"]))
        for one in found["items"]
    ]
    session.data(table(("CONDUCTOR", "GROUP", "DRIVERS", "RELEASE", "STEPS", "HEARD OF"), rows, session.paint))
