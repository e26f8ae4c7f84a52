"""`coterie stemcells`: images that nodes are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table
from coterie.errors import UsageError
from coterie.times import ago


@noun("stemcells")
def stemcells(session: Session) -> None:
    """List the catalogue."""
    found = session.client.stemcells.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (
            one["name"],
            one["version"],
            one["os"],
            one["light"],
            one["clouds"],
            (one["sha256"] or "")[:12],
            ago(one["created_at"]),
        )
        for one in found["items"]
    ]
    session.data(table(("NAME", "VERSION", "OS", "LIGHT", "IN CLOUDS", "SHA256", "ADDED"), rows, session.paint))


@stemcells.verb("upload")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def upload(session: Session, file: str) -> None:
    """Upload a BOSH stemcell tarball."""
    with Path(file).open("rb") as body:
        _show_added(session, session.client.stemcells.upload(body))


@stemcells.verb("add")
@click.argument("name")
@click.argument("version")
@click.option(
    "--property", "properties", multiple=True, required=True, metavar="KEY=VALUE", help="Cloud property; JSON or text."
)
@click.option("--os", metavar="NAME", help="Its operating system, for manifests that name that.")
def add(session: Session, name: str, version: str, properties: tuple[str, ...], os: str | None) -> None:
    """Add a light stemcell: an image that the clouds have already; the properties say which."""
    image = dict(_pair(one) for one in properties)
    _show_added(session, session.client.stemcells.add(name=name, version=version, os=os, cloud_properties=image))


@stemcells.verb("delete")
@click.argument("which", metavar="NAME/VERSION")
def delete(session: Session, which: str) -> None:
    """Delete a stemcell from the catalogue; refused while a cloud holds an image of it."""
    name, _, version = which.rpartition("/")
    if not name or not version:
        raise UsageError(f"{which!r} names no stemcell", remedy="write NAME/VERSION, as `coterie stemcells` shows it")
    session.client.stemcells.get(name, version)
    session.confirm(f"Delete stemcell {which}?")
    session.client.stemcells.delete(name, version)
    session.say(f"deleted stemcell {which}")


def _show_added(session: Session, stemcell: Mapping[str, Any]) -> None:
    if session.json:
        session.data(as_json(stemcell))
    session.say(f"stemcell {stemcell['name']}/{stemcell['version']} is in the catalogue")


def _pair(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise UsageError(f"{text!r} is no property", remedy="write KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
