"""`coterie nodes create` and `delete`: existing machines, enrolled and forgotten again."""

from __future__ import annotations

from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.nodes.noun import nodes
from coterie.cli.show.table import as_json
from coterie.cli.watch.task import watch_or_leave
from coterie.errors import UsageError

_LONGEST = 255


@nodes.verb("create")
@click.option("--cloud", metavar="NAME", required=True, help="The cloud that it is in.")
@click.option("--cid", metavar="CID", required=True, help="Its id, as the cloud writes it.")
@click.option("--name", metavar="NAME", help="Its name here; default: made of the CID.")
@click.option(
    "--conductor-group", metavar="NAME", help='Group of its conductor; default: its cloud\'s; "": the unnamed one.'
)
def create(session: Session, **given: Any) -> None:
    """Enroll an existing machine: it is shown and looked after from now on, and changed or deleted by nothing."""
    long = [name for name, value in given.items() if value is not None and len(value) > _LONGEST]
    if long:
        flag = long[0].replace("_", "-")
        raise UsageError(f"--{flag} is longer than {_LONGEST} characters", remedy="give a shorter one")
    node = session.client.nodes.enroll(**given)
    if session.json:
        session.data(as_json(node))
    session.say(f"{node['name']} ({node['uuid']}) is enrolled, conductor group {node['runs_in_group']!r}")


@nodes.verb("delete")
@click.argument("which", metavar="UUID|NAME")
@click.option("--destroy", is_flag=True, help="Delete the machine too; there is no way back.")
def delete(session: Session, which: str, destroy: bool) -> int:
    """Forget an enrolled node. Its machine stays as it is, unless --destroy is given."""
    if not destroy:
        session.client.nodes.delete(which)
        session.say(f"{which} is forgotten; its machine stays as it is")
        return 0
    session.confirm(f"Delete the machine of node {which}?")
    task = session.client.nodes.delete(which, destroy=True)
    return 0 if task is None else watch_or_leave(session, task)
