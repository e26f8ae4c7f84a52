"""`coterie groups`: server groups, and what the clouds hold of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.cli.watch.task import watch_or_leave
from coterie.director.services.states import GroupState
from coterie.errors import NotFound
from coterie.times import ago


@noun("groups")
@click.option("--deployment", metavar="NAME")
@click.option("--cloud", metavar="NAME")
@click.option("--state", type=click.Choice(get_args(GroupState)))
def groups(session: Session, **wanted: Any) -> None:
    """List server groups, one row per cloud; `show` asks the cloud."""
    found = session.client.groups.list(**wanted).listing()
    if session.json:
        session.data(as_json(found))
        return
    names = ("deployment", "name", "cloud", "policy", "state", "size", "instance_groups", "cid")
    listed: Sequence[Mapping[str, Any]] = found["items"]
    rows = [[group[name] for name in names] for group in listed]
    headers = ("DEPLOYMENT", "GROUP", "CLOUD", "POLICY", "STATE", "NODES", "USED BY", "CID")
    session.data(table(headers, rows, session.paint, state=4))


@groups.verb("show")
@click.argument("name", metavar="[DEPLOYMENT/]NAME|CID")
@click.option("--deployment", metavar="NAME", help="Where the name is used by several.")
def show(session: Session, name: str, deployment: str | None) -> None:
    """One server group: its nodes and hosts, and a fresh look at what its cloud holds."""
    found = [session.client.groups.get(cid) for cid in _cids(session, name, deployment)]
    if session.json:
        session.data(as_json(found[0] if len(found) == 1 else {"items": found, "next": None}))
        return
    session.data("\n\n".join(_group_text(session, group) for group in found))


@groups.verb("repair")
@click.argument("name", metavar="[DEPLOYMENT/]NAME|CID")
@click.option("--deployment", metavar="NAME", help="Where the name is used by several.")
def repair(session: Session, name: str, deployment: str | None) -> int:
    """Have the cloud make again what it lost of a server group, for the VMs that belong to it."""
    cids = _cids(session, name, deployment)
    return max(watch_or_leave(session, session.client.groups.repair(cid)) for cid in cids)


def _cids(session: Session, name: str, deployment: str | None) -> list[str]:
    if name.startswith(("cg-", "ext-")):
        return [name]
    rows = list(session.client.groups.list(name=name, deployment=deployment))
    whose, slash, short = name.partition("/")
    if not rows and slash and deployment is None:
        rows = list(session.client.groups.list(name=short, deployment=whose))
    if not rows:
        raise NotFound(f"no server group {name!r}", remedy="list them with `coterie groups`")
    return [row["intent"] for row in rows]


def _group_text(session: Session, group: Mapping[str, Any]) -> str:
    parts = [fields(_facts(group), session.paint)]
    members = [(one["name"], one["az"], one["host"], one["vm_cid"]) for one in group["members"]]
    if members:
        parts.append(table(("NODE", "AZ", "HOST", "VM"), members, session.paint))
    live = (group["live"] or {}).get("data") or {}
    held = [(one["kind"], one["az"], one["created_by_us"], one["cid"]) for one in live.get("resources", ())]
    theirs = [(one["vm_cid"], one["host"]) for one in live.get("members", ()) if not one["ours"]]
    if theirs:
        parts.append(table(("FOREIGN MEMBER", "HOST"), theirs, session.paint))
    if held:
        parts.append(table(("RESOURCE", "AZ", "OURS", "CID"), held, session.paint))
    return "\n\n".join(parts)


def _facts(group: Mapping[str, Any]) -> list[tuple[str, Any]]:
    names = ("name", "cid", "deployment", "cloud", "policy", "state", "adopted")
    found = [(name, group[name]) for name in names]
    found.append(("used by", group["instance_groups"]))
    found += [("drift", one) for one in group["drift"]]
    live = group["live"] or {}
    data, error = live.get("data") or {}, live.get("error") or {}
    if live:
        found.append(("in the cloud", data.get("state") or error.get("what")))
        found.append(("looked", ago(live["at"])))
    found += [("note", note) for note in data.get("notes", ())]
    found += [("remedy", remedy)] if (remedy := group.get("remedy")) else []  # an older Director has none
    return found
