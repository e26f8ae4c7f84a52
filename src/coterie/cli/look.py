"""`coterie look`: look now, instead of waiting for the periodic look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.nodes.noun import node_table
from coterie.cli.show.table import as_json
from coterie.cli.watch.task import watch_or_leave, watch_quietly
from coterie.client import ApiProblem

_NOT_FOUND = 404


@verb("look")
@click.argument("what", metavar="[DEPLOYMENT|NODE]", required=False)
def look(session: Session, what: str | None) -> int:
    """Look at once which VMs are there and which nodes are healthy; changes no VM.

    Without a name it looks at all clouds. Prints the nodes that are not up.
    """
    scope = _scope(session, what)
    task = session.client.looks.look(**scope)
    if not session.wait:
        return watch_or_leave(session, task)
    code = watch_quietly(session, task)
    if code == 0:
        _show(session, _nodes(session, scope))
    return code


def _scope(session: Session, what: str | None) -> Mapping[str, Any]:
    """A name without a slash is a deployment's, or else that of an enrolled node, or a uuid."""
    if what is None:
        return {}
    if "/" not in what:
        try:
            session.client.deployments.get(what)
            return {"deployment": what}
        except ApiProblem as problem:
            if problem.status != _NOT_FOUND:
                raise
    return {"node": what}


def _nodes(session: Session, scope: Mapping[str, Any]) -> dict[str, Any]:
    if "node" in scope:
        return {"items": [session.client.nodes.get(scope["node"])], "next": None}
    return {**session.client.nodes.list(**scope).listing()}


def _show(session: Session, found: dict[str, Any]) -> None:
    if session.json:
        session.data(as_json(found))
        return
    troubled = [node for node in found["items"] if node["state"] != "up"]
    if troubled:
        session.data(node_table(session, troubled))
    counts = Counter(node["state"] for node in found["items"])
    session.say(", ".join(f"{count} {state}" for state, count in counts.most_common()) or "there are no nodes")
