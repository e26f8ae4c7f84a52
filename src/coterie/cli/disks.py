"""`coterie disks`: persistent disks, attached and kept."""

from __future__ import annotations

from typing import get_args

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.link.api import part
from coterie.cli.show.table import as_json, table
from coterie.cli.show.times import ago
from coterie.cli.watch.task import watch_or_leave
from coterie.director.services.states import DiskState


@noun("disks")
@click.option("--deployment", metavar="NAME")
@click.option("--state", type=click.Choice(get_args(DiskState)))
@click.option("--cloud", metavar="NAME")
def disks(session: Session, **wanted: str | None) -> None:
    """List persistent disks; `delete` one that no node uses."""
    found = session.api.list("/v1/disks", wanted)
    if session.json:
        session.data(as_json(found))
        return
    names = ("deployment", "ref", "state", "size_mb", "cloud", "az", "cid")
    rows = [[*[disk[name] for name in names], ago(disk["created_at"]), disk["intent"]] for disk in found["items"]]
    headers = ("DEPLOYMENT", "OF", "STATE", "MIB", "CLOUD", "AZ", "CID", "MADE", "INTENT")
    session.data(table(headers, rows, session.paint, state=2))


@disks.verb("delete")
@click.argument("intent")
def delete(session: Session, intent: str) -> int:
    """Delete the kept disk INTENT and the data on it."""
    disk = session.api.get(f"/v1/disks/{part(intent)}")
    session.confirm(f"Delete disk {disk['cid']} ({disk['size_mb']} MiB, was of {disk['ref']}) and its data?")
    return watch_or_leave(session, session.api.start("DELETE", f"/v1/disks/{part(intent)}"))
