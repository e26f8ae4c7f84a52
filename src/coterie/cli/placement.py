"""`coterie placement`: where nodes are, and whether promises hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.errors import NotFound, UsageError

BROKEN = 1


@noun("placement")
def placement(session: Session) -> None:
    """`show` where every node is, or `audit` what was promised."""
    _show(session, None)


@placement.verb("show")
@click.argument("deployment", required=False)
def show(session: Session, deployment: str | None) -> None:
    """Which node is in which az, rack and host."""
    _show(session, deployment)


@placement.verb("audit")
@click.argument("deployment", required=False)
def audit(session: Session, deployment: str | None) -> int:
    """Per server group: the promise, whether it holds, what a failure would take down.

    Exit code 1 if a promise is broken; one that cannot be verified is shown as unknown.
    """
    found = session.client.placement.audit(deployment=deployment)
    if session.json:
        session.data(as_json(found))
    else:
        session.data("\n\n".join(_audit_text(session, group) for group in found["groups"]) or "no server groups")
    return BROKEN if any(group["holds"] is False for group in found["groups"]) else 0


@placement.verb("map", own_output=True)
@click.argument("deployment", required=False)
@click.option(
    "-o", "--output", "form", type=click.Choice(["svg", "html", "json"]), help="Form of the picture; default: svg."
)
@click.option("--rack", metavar="CLOUD/AZ/RACK", default="", help="Only this rack, with its hosts.")
def show_map(session: Session, deployment: str | None, form: str | None, rack: str) -> None:
    """Print a picture of clouds, azs, racks, hosts and nodes, as the console shows it.

    It is of the last look and check; no cloud is asked. More than 150 hosts are drawn by rack: name one with --rack.
    """
    from coterie.director.console.drawing import placement_map

    form = form or ("json" if session.json else "svg")
    if form != "json" and sys.stdout.isatty():
        raise UsageError(
            "a picture is no text for a terminal", remedy=f"write a file: {session.command()} > map.{form}"
        )
    most = None if rack or form == "json" else placement_map.DETAIL_HOSTS
    found = session.client.placement.show_map(deployment=deployment, rack=rack or None, most=most)
    if form == "json":
        session.data(as_json(found))
        return
    drawing = placement_map.draw(found, links=False)
    if rack and not found["racks"]:
        raise NotFound(f"no rack {rack!r}", remedy="see the racks in `coterie placement show`: CLOUD/AZ/RACK")
    session.data(drawing.file() if form == "svg" else placement_map.document(drawing, found))


def _show(session: Session, deployment: str | None) -> None:
    found = session.client.placement.audit(deployment=deployment)
    if session.json:
        session.data(as_json(found))
        return
    names = ("deployment", "node", "state", "cloud", "az", "rack", "host", "vm_cid")
    listed: Sequence[Mapping[str, Any]] = found["nodes"]
    rows = [[node[name] for name in names] for node in listed]
    headers = ("DEPLOYMENT", "NODE", "STATE", "CLOUD", "AZ", "RACK", "HOST", "VM")
    session.data(table(headers, rows, session.paint, state=2))


def _audit_text(session: Session, group: Mapping[str, Any]) -> str:
    verdict = {True: "holds", False: "broken", None: "unknown"}[group["holds"]]
    if group["holds"] and group["state"] == "drifted":
        verdict = "holds now, but the group has drifted"
    elif group["holds"] and group.get("outside"):
        verdict = f"holds now; not in the group yet: {', '.join(group['outside'])}"
    pairs = [
        ("group", f"{group['deployment']}/{group['name']} in {group['cloud']} ({group['state']})"),
        ("policy", group["policy"]),
        ("promise", group["promise"]),
        ("verdict", verdict),
    ]
    pairs += [("why", group["why"])] if group["why"] else []
    if group.get("unfinished_task"):
        pairs += [("unfinished", f"task {group['unfinished_task']} did not complete the deployment: deploy again")]
    pairs += [("down", ", ".join(f"{node} ({what})" for node, what in group["down"].items()))] if group["down"] else []
    word = group.get("domain_word")  # of the failure domains that the cloud shows in place of hosts
    if word and not group["hosts"]:
        pairs += [(f"worst {word}", _worst(group["worst_domain"]))]
    else:
        pairs += [(f"worst {what}", _worst(group[f"worst_{what}"])) for what in ("host", "rack")]
    if group["mend"]:
        words = " ".join(f"--node {node}" for node in group["mend"])
        pairs += [("mend", f"place {len(group['mend'])} anew: coterie deploy MANIFEST --recreate {words}")]
    pairs += [("note", note) for note in group["notes"]]
    pairs += [("remedy", group["remedy"])] if group["remedy"] else []
    text = fields(pairs, session.paint)
    updates = group.get("update_domains") or {}
    tables = ((word or "", group.get("domains") or {}), ("update domain", updates), ("host", group["hosts"]))
    for title, places in tables:
        rows = [(place, len(nodes), nodes) for place, nodes in places.items()]
        text += f"\n\n{table((title.upper(), 'COUNT', 'NODES'), rows, session.paint)}" if rows else ""
    return text


def _worst(worst: Mapping[str, Any] | None) -> str:
    if worst is None:
        return "unknown"
    nodes = worst["nodes"]
    return f"{worst['name']} takes down {len(nodes)} ({', '.join(nodes)})"
