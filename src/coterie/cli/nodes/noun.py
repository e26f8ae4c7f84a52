"""`coterie nodes`: the machines under management."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table, without_empty
from coterie.director.services.states import NodeState
from coterie.errors import UsageError
from coterie.times import ago

_HEADERS = ("DEPLOYMENT", "NODE", "STATE", "AZ", "HOST", "ADDRESS", "GROUP", "CONDUCTORS", "VM")


@noun("nodes")
@click.option("--deployment", metavar="NAME")
@click.option("--group", "instance_group", metavar="NAME", help="Instance group.")
@click.option("--az", metavar="NAME")
@click.option("--state", type=click.Choice(get_args(NodeState)))
@click.option("--cloud", metavar="NAME")
@click.option("--enrolled", is_flag=True, default=None, help="Only enrolled machines.")
@click.option("--conductor-group", metavar="NAME", help="Only nodes whose work runs in this group.")
@click.option("--watch", "watching", is_flag=True, help="Go on, and show what changes; Ctrl-C ends it.")
def nodes(session: Session, watching: bool, **wanted: Any) -> int | None:
    """List nodes; `show` one, `set` its conductor group; `recreate`, `restart`, `stop` and `start` nodes; `create` and
    `delete` enroll and forget existing machines; `settle` sets the outcome of an object that its cloud cannot show."""
    if watching:
        from coterie.cli.nodes.watch import watch_nodes

        def read() -> list[Mapping[str, Any]]:
            return list(session.client.nodes.list(**wanted))

        return watch_nodes(session, read, lambda found: node_table(session, found))
    found = session.client.nodes.list(**wanted).listing()
    if session.json:
        session.data(as_json(found))
        return None
    session.data(node_table(session, found["items"]))
    return None


@nodes.verb("show")
@click.argument("which", metavar="UUID|[DEPLOYMENT/]GROUP/INDEX|NAME")
def show(session: Session, which: str) -> None:
    """One node: how its VM was made, and the cloud objects that belong to it."""
    node = session.client.nodes.get(which)
    if session.json:
        session.data(as_json(node))
        return
    session.data(fields(_facts(node), session.paint))
    if node["objects"]:
        rows = [(one["kind"], one["cid"], one["state"], one["intent"]) for one in node["objects"]]
        session.data("\n" + table(("KIND", "CID", "STATE", "INTENT"), rows, session.paint, state=2))


@nodes.verb("set")
@click.argument("which", metavar="UUID|[DEPLOYMENT/]GROUP/INDEX|NAME")
@click.option(
    "--conductor-group", "group", metavar="NAME", help='Conductor group to move it to; "" is the one without a name.'
)
@click.option("--inherit", is_flag=True, help="Take the conductor group of its instance group, az or cloud again.")
def set_group(session: Session, which: str, group: str | None, inherit: bool) -> None:
    """Move a node to another conductor group, with the steps that wait for it."""
    if (group is None) != inherit:
        raise UsageError("say which conductor group", remedy="either --conductor-group NAME, or --inherit")
    node = session.client.nodes.change(which, conductor_group=group)
    if session.json:
        session.data(as_json(node))
    session.say(f"{which} runs in conductor group {node['runs_in_group']!r}")


@nodes.verb("settle")
@click.argument("intent")
@click.option("--cid", metavar="CID", help="It is there, under this id.")
@click.option("--gone", is_flag=True, help="It is not there.")
def settle(session: Session, intent: str, cid: str | None, gone: bool) -> None:
    """Set the outcome of an object in doubt. Look in its cloud first; a cloud that shows marks is searched too."""
    if (cid is None) != gone:
        raise UsageError("say what you found", remedy="either --cid CID, or --gone")
    settled = session.client.objects.settle(intent, cid=cid)
    if session.json:
        session.data(as_json(settled))
    session.say(f"{settled['kind']} {settled['ref'] or intent} is {settled['state']}")


def node_table(session: Session, found: Sequence[Mapping[str, Any]]) -> str:
    headers, rows = without_empty(_HEADERS, [_row(node) for node in found], "CONDUCTORS")
    return table(headers, rows, session.paint, state=2, spare=("VM", "CONDUCTORS", "GROUP", "HOST"))


def _row(node: Mapping[str, Any]) -> tuple[Any, ...]:
    addresses = [str(address) for address in node["addresses"].values()]
    names = ("deployment", "name", "state", "az", "host")
    shown = {**node, "deployment": "(enrolled)"} if node.get("enrolled") else node
    return (
        *[shown[name] for name in names],
        addresses,
        node["server_group"],
        node.get("runs_in_group"),
        node["vm_cid"],
    )


def _facts(node: Mapping[str, Any]) -> list[tuple[str, Any]]:
    problem = node["problem"] or {}
    found = [(name, node[name]) for name in ("uuid", "name", "deployment", "state", "az", "cloud", "host", "vm_cid")]
    found.append(("addresses", [f"{network} {ip}" for network, ip in node["addresses"].items()]))
    found.append(("server group", node["server_group"]))
    inherited = " (inherited)" if node.get("conductor_group") is None else ""
    found.append(("conductor group", f"{node.get('runs_in_group') or 'none'}{inherited}"))
    found.append(("changed", ago(node["updated_at"])))
    found += [(name, problem[name]) for name in ("what", "why", "remedy") if problem.get(name)]
    return found
