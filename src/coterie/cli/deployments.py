"""`coterie deployments`: what is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.errors import UsageError
from coterie.times import ago

Row = Mapping[str, Any]


@noun("deployments")
def deployments(session: Session) -> None:
    """List deployments: how their nodes are, and the task that works on each; `show` one, print its `manifest`."""
    found = session.client.deployments.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (
            one["name"],
            sum(one["nodes"].values()),
            [f"{count} {state}" for state, count in one["nodes"].items()],
            one["team"],
            one["task"],
            f"task {one['unfinished_task']}" if one.get("unfinished_task") else None,
            one["resurrection"],
            ago(one["updated_at"]),
        )
        for one in found["items"]
    ]
    headers = ("DEPLOYMENT", "NODES", "STATES", "TEAM", "TASK", "UNFINISHED", "RESURRECTION", "CHANGED")
    session.data(table(headers, rows, session.paint))


@deployments.verb("show")
@click.argument("name")
def show(session: Session, name: str) -> None:
    """One deployment: its instance groups, server groups, disks, and the task that works on it."""
    one = session.client.deployments.get(name)
    if session.json:
        session.data(as_json(one))
        return
    parts: dict[str, list[Any]] = {
        "nodes": list(session.client.nodes.list(deployment=name)),
        "groups": list(session.client.groups.list(deployment=name)),
        "disks": list(session.client.disks.list(deployment=name)),
    }
    session.data(fields(_facts(one, parts), session.paint))
    if parts["nodes"]:
        rows = [
            (group, found["nodes"], [f"{n} {state}" for state, n in found["states"].items()], found["azs"])
            for group, found in _by_group(parts["nodes"]).items()
        ]
        session.data("\n" + table(("INSTANCE GROUP", "NODES", "STATES", "AZS"), rows, session.paint))


def _by_group(nodes: list[Row]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        group = found.setdefault(node["instance_group"], {"nodes": 0, "states": {}, "azs": []})
        group["nodes"] += 1
        group["states"][node["state"]] = group["states"].get(node["state"], 0) + 1
        if node["az"] not in group["azs"]:
            group["azs"].append(node["az"])
    return found


def _facts(one: Row, parts: dict[str, list[Row]]) -> list[tuple[str, Any]]:
    kept = [disk for disk in parts["disks"] if disk["state"] == "kept"]
    left = f", {len(kept)} kept: coterie disks --deployment {one['name']}" if kept else ""
    found = [
        ("deployment", one["name"]),
        ("nodes", [f"{count} {state}" for state, count in one["nodes"].items()]),
        ("server groups", sorted({group["name"] for group in parts["groups"]})),
        ("disks", f"{len(parts['disks']) - len(kept)}{left}"),
        ("team", one["team"]),
        ("resurrection", one["resurrection"]),
        ("task", one["task"]),
        ("deployed", f"{one['serial']} times, the last time {ago(one['updated_at'])}"),
    ]
    if one.get("unfinished_task"):
        found.append(("unfinished", f"since task {one['unfinished_task']}; deploy again to complete it"))
    return found + [(node["name"], node["problem"]["what"]) for node in parts["nodes"] if node["problem"]]


@deployments.verb("manifest")
@click.argument("name")
def manifest(session: Session, name: str) -> None:
    """Print the manifest of NAME as it was deployed; secrets in it are hidden."""
    text = session.client.deployments.manifest(name)
    session.data(as_json({"name": name, "manifest": text}) if session.json else text)


@deployments.verb("set")
@click.argument("name")
@click.option("--team", metavar="NAME", help="Give it to this team.")
@click.option("--no-team", is_flag=True, help="No team: visible only to users that are not limited to teams.")
def set_team(session: Session, name: str, team: str | None, no_team: bool) -> None:
    """Say which team a deployment belongs to. For admins."""
    if (team is None) != no_team:
        raise UsageError("say which team", remedy="either --team NAME, or --no-team")
    found = session.client.deployments.change(name, team=team)
    if session.json:
        session.data(as_json(found))
    session.say(f"deployment {name} belongs to {team or 'no team'}")
