"""`coterie ring`: which conductor a node belongs to, why, and what would move."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.errors import UsageError

_MOST = 20


@noun("ring")
def ring(session: Session) -> None:
    """Show every ring; `explain` a node, ask `what-if`, `verify` recorded answers of an Ironic."""
    _show(session)


@ring.verb("show")
def show(session: Session) -> None:
    """Every ring: its members, and how many nodes each has."""
    _show(session)


@ring.verb("explain")
@click.argument("node", metavar="UUID|DEPLOYMENT/GROUP/INDEX")
def explain(session: Session, node: str) -> None:
    """The conductor of a node: key, ring, and why it is that one."""
    found: Mapping[str, Any] = session.client.ring.explain(node)
    names = ("node", "uuid", "conductor_group", "driver", "key", "algorithm", "ring", "conductor", "why")
    session.data(as_json(found) if session.json else fields([(name, found[name]) for name in names], session.paint))


@ring.verb("what-if")
@click.option("--without", multiple=True, metavar="CONDUCTOR", help="It leaves. Repeat for several.")
@click.option("--with", "added", multiple=True, metavar="NAME:GROUP:DRIVERS", help="It joins. Repeat for several.")
def what_if(session: Session, without: tuple[str, ...], added: tuple[str, ...]) -> None:
    """How many nodes would move, and where. Changes nothing."""
    if not without and not added:
        raise UsageError("say what would change", remedy="--without CONDUCTOR, or --with NAME:GROUP:DRIVERS")
    found = session.client.ring.what_if(without=without, with_=added)
    if session.json:
        session.data(as_json(found))
        return
    session.say(f"{found['moved']} of {found['nodes']} nodes move, {found['orphaned']} of them to no conductor")
    rows = [(one["from"], one["to"], one["nodes"]) for one in found["moves"]]
    session.data(table(("FROM", "TO", "NODES"), rows, session.paint))


@ring.verb("verify")
@click.argument("vectors", metavar="VECTORS.json")
def verify(session: Session, vectors: str) -> int:
    """Compare `ring: ironic` with answers recorded from a real Ironic. 1 if there is a difference."""
    from coterie.ring.verify import verify as compare

    verdict = compare(_document(vectors))
    differences = [
        {"fleet": d.fleet, "what": d.what, "expected": d.expected, "found": d.found} for d in verdict.differences
    ]
    if session.json:
        session.data(as_json({"passed": verdict.passed, "failed": len(differences), "differences": differences}))
    else:
        session.data(f"{verdict.passed} passed, {len(differences)} failed")
        for one in differences[:_MOST]:
            session.say(f"{one['fleet']}: {one['what']}: expected {one['expected']}, found {one['found']}")
    return 1 if differences else 0


def _show(session: Session) -> None:
    found = session.client.ring.get()
    if session.json:
        session.data(as_json(found))
        return
    if not found["groups_count"]:
        session.say("groups do not count yet: a conductor is pinned to a release from before them")
    rows = [row for one in found["rings"] for row in _rows(one)]
    session.data(table(("RING", "ALGORITHM", "CONDUCTOR", "WEIGHT", "NODES"), rows, session.paint))


def _rows(one: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    rows = [(one["key"], one["algorithm"], m["name"], m["weight"], m["nodes"]) for m in one["members"]]
    if one["orphans"]:
        rows.append((one["key"], "", "(none)", "", one["orphans"]))
    return rows


def _document(path: str) -> Any:
    try:
        return json.loads(read(path))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON", why=str(error), remedy="give the recorded vectors as JSON") from error
