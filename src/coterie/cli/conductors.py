"""`coterie conductors`: the processes that run the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.keys import keys
from coterie.cli.show.table import as_json, table
from coterie.times import ago


@noun("conductors")
def conductors(session: Session) -> None:
    """List conductors: group, drivers, release, how many steps each runs, when it was last heard of;
    `groups`, `keys`, `role`."""
    found = session.client.conductors.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["name"], _group(one), one["drivers"], release_shown(one), one["running"], ago(one["heartbeat"]))
        for one in found["items"]
    ]
    session.data(table(("CONDUCTOR", "GROUP", "DRIVERS", "RELEASE", "STEPS", "HEARD OF"), rows, session.paint))


def release_shown(one: Mapping[str, Any]) -> str:
    """The release of a conductor, and what it is pinned to: one pinned conductor decides for the fleet."""
    return f"{one['release']}, pinned to {one['speaks']}" if one["speaks"] else str(one["release"])


@conductors.verb("groups")
def groups(session: Session) -> None:
    """List conductor groups: members, clouds, nodes, and the nodes that no live conductor serves."""
    found = session.client.conductors.groups().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["name"] or "(none)", one["conductors"], one["drivers"], one["clouds"], one["nodes"], one["orphans"])
        for one in found["items"]
    ]
    session.data(table(("GROUP", "CONDUCTORS", "DRIVERS", "CLOUDS", "NODES", "ORPHANS"), rows, session.paint))


@conductors.verb("role")
@click.argument("role")
@click.option(
    "--group",
    "groups",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Conductor group whose work it may see and do; may be repeated. '': clouds without a group. '*': all of them.",
)
def role(session: Session, role: str, groups: tuple[str, ...]) -> None:
    """Print SQL that gives ROLE of PostgreSQL what conductors of these groups need and no more: run it as the
    Director's role."""
    from coterie.ledger.grants import statements

    session.data("\n".join(statements(role, groups)))


conductors.add_command(keys)


def _group(conductor: Mapping[str, Any]) -> str:
    group = conductor.get("conductor_group", "")  # hidden while the Director is pinned to a release from before groups
    return "(every)" if group is None else str(group)
