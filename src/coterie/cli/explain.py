"""`coterie explain`: what a field of the manifest or the cloud config means."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json, fields


@verb("explain")
@click.argument("path", metavar="PATH")
def explain(session: Session, path: str) -> None:
    """Document a field, e.g. `coterie explain instance_groups.placement.policy`.

    What a driver takes: `coterie explain clouds.properties@openstack`, and `...@openstack.auth_url` for one of them.
    """
    found: Mapping[str, Any] = session.client.explain.get(path)
    if session.json:
        session.data(as_json(found))
        return
    session.data(fields(_facts(found), session.paint) + "\n\n" + textwrap.fill(found["description"], 100))
    children = found.get("children") or []
    if children:
        session.data("\n" + textwrap.fill(f"fields: {', '.join(children)}", 100, subsequent_indent="        "))


def _facts(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Values as they can stand in a document: JSON is YAML."""
    names = ("path", "type", "required", "default", "choices", "example")
    given = [(name, found[name]) for name in names if found.get(name) not in (None, "", [], ())]
    return [(name, json.dumps(value) if name in ("default", "example") else value) for name, value in given]
