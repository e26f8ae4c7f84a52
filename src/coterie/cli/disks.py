"""`coterie disks`: persistent disks, attached and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.nodes.act import find_nodes
from coterie.cli.show.table import as_json, table
from coterie.cli.watch.task import watch_or_leave
from coterie.director.services.states import DiskState
from coterie.errors import NotFound, UsageError
from coterie.times import ago

if TYPE_CHECKING:
    from coterie.client.resources import Disk

_UNUSED = ("kept", "deleting")
_SHOWN = 20


@noun("disks")
@click.option("--deployment", metavar="NAME")
@click.option("--state", type=click.Choice(get_args(DiskState)))
@click.option("--cloud", metavar="NAME")
def disks(session: Session, **wanted: Any) -> None:
    """List persistent disks; `attach` a kept one to a node; `delete` those that no node uses."""
    found = session.client.disks.list(**wanted).listing()
    if session.json:
        session.data(as_json(found))
        return
    names = ("deployment", "ref", "state", "size_mb", "cloud", "az", "cid")
    listed: Sequence[Mapping[str, Any]] = found["items"]
    rows = [[*[disk[name] for name in names], ago(disk["created_at"]), disk["intent"]] for disk in listed]
    headers = ("DEPLOYMENT", "OF", "STATE", "MIB", "CLOUD", "AZ", "CID", "MADE", "INTENT")
    session.data(table(headers, rows, session.paint, state=2))


@disks.verb("attach")
@click.argument("disk", metavar="DISK")
@click.argument("node", metavar="[DEPLOYMENT/]GROUP/INDEX")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
def attach(session: Session, disk: str, node: str, dry_run: bool) -> int:
    """Give a node the kept DISK, by CID or intent, in the place of its own, which is kept."""
    deployment, names = find_nodes(session, (node,))
    request = {"action": "attach", "nodes": names, "disk": _find(session, disk)["intent"]}
    return plan_request.act(session, deployment, request, dry_run=dry_run)


@disks.verb("delete")
@click.argument("names", metavar="[DISK]...", nargs=-1)
@click.option("--deployment", metavar="NAME", help="All kept disks of this deployment, also of one that is deleted.")
@click.option("--cloud", metavar="NAME", help="All kept disks in this cloud.")
def delete(session: Session, names: tuple[str, ...], deployment: str | None, cloud: str | None) -> int:
    """Delete kept disks and the data on them: each DISK, by CID or intent, or all of a deployment or cloud."""
    if bool(names) == bool(deployment or cloud):
        raise UsageError("which disks?", remedy="name them, or give --deployment NAME or --cloud NAME")
    chosen = [_find(session, name) for name in names] if names else _all(session, deployment, cloud)
    size = sum(disk["size_mb"] for disk in chosen)
    for disk in chosen[:_SHOWN]:
        session.say(f"  {disk['cid']} ({disk['size_mb']} MiB, was of {disk['deployment']}/{disk['ref']})")
    if len(chosen) > _SHOWN:
        session.say(f"  … and {len(chosen) - _SHOWN} more")
    session.confirm(f"Delete {len(chosen)} disk{'s' if len(chosen) > 1 else ''} ({size} MiB) and the data on them?")
    if len(chosen) == 1:
        return watch_or_leave(session, session.client.disks.delete(chosen[0]["intent"]))
    intents = [disk["intent"] for disk in chosen]
    return watch_or_leave(session, session.client.disks.delete_several(disks=intents))


def _all(session: Session, deployment: str | None, cloud: str | None) -> list[Disk]:
    kept = session.client.disks.list(deployment=deployment, cloud=cloud, state="kept")
    found = [disk for disk in kept if disk["node"] is None]  # one with a node is still attached to it
    if not found:
        raise NotFound("there are no such kept disks", remedy="see `coterie disks --state kept`")
    return found


def _find(session: Session, name: str) -> Disk:
    """By intent or CID. The ids of two clouds may be equal."""
    present = list(session.client.disks.list())
    found = [disk for disk in present if disk["intent"] == name]
    found = found or [disk for disk in present if disk["cid"] == name]
    if len(found) > 1:
        found = [disk for disk in found if disk["state"] in _UNUSED] or found
    if not found:
        raise NotFound(f"there is no disk {name}", remedy="list them with `coterie disks`")
    if len(found) > 1:
        intents = ", ".join(disk["intent"] for disk in found)
        raise UsageError(f"several clouds have a disk {name}", remedy=f"say which by its intent: {intents}")
    return found[0]
