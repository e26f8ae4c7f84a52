"""`coterie deployments`: what is deployed."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.link.api import part
from coterie.cli.show.table import as_json, table
from coterie.cli.show.times import ago
from coterie.errors import UsageError


@noun("deployments")
def deployments(session: Session) -> None:
    """List deployments: how their nodes are, and the task that works on each."""
    found = session.api.list("/v1/deployments")
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


@deployments.verb("manifest")
@click.argument("name")
def manifest(session: Session, name: str) -> None:
    """Print the manifest of NAME as it was deployed; secrets in it are hidden."""
    text = session.api.get(f"/v1/deployments/{part(name)}/manifest")
    session.data(as_json({"name": name, "manifest": text}) if session.json else text)


@deployments.verb("set")
@click.argument("name")
@click.option("--team", metavar="NAME", help="Give it to this team.")
@click.option("--no-team", is_flag=True, help="No team: visible only to users that are not limited to teams.")
def set_team(session: Session, name: str, team: str | None, no_team: bool) -> None:
    """Say which team a deployment belongs to. For admins."""
    if (team is None) != no_team:
        raise UsageError("say which team", remedy="either --team NAME, or --no-team")
    found = session.api.send("PATCH", f"/v1/deployments/{part(name)}", body={"team": team}).body
    if session.json:
        session.data(as_json(found))
    session.say(f"deployment {name} belongs to {team or 'no team'}")
