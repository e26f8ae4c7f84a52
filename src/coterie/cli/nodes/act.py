"""`coterie nodes recreate`, `restart`, `stop` and `start`: by name, without a manifest, through a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.nodes.noun import nodes
from coterie.errors import UsageError

_WHICH = "[DEPLOYMENT/]GROUP/INDEX..."


def _takes_nodes(function: Callable[..., int]) -> Callable[..., int]:
    function = click.option("--dry-run", is_flag=True, help="Show the plan and stop.")(function)
    number = click.IntRange(min=1)
    function = click.option(
        "--max-in-flight",
        type=number,
        help="Nodes of a group at a time; else as its manifest says.",
    )(function)
    return click.argument("which", metavar=_WHICH, nargs=-1, required=True)(function)


@nodes.verb("recreate")
@_takes_nodes
def recreate(session: Session, which: tuple[str, ...], max_in_flight: int | None, dry_run: bool) -> int:
    """Delete the VMs of nodes and create new ones; disks and addresses stay."""
    return _act(session, "recreate", which, max_in_flight, dry_run)


@nodes.verb("restart")
@_takes_nodes
def restart(session: Session, which: tuple[str, ...], max_in_flight: int | None, dry_run: bool) -> int:
    """Reboot the VMs of nodes, and wait until each is up."""
    return _act(session, "restart", which, max_in_flight, dry_run)


@nodes.verb("stop")
@_takes_nodes
def stop(session: Session, which: tuple[str, ...], max_in_flight: int | None, dry_run: bool) -> int:
    """Delete the VMs of nodes and keep the rest: disks and addresses wait for `start`, also through deploys."""
    return _act(session, "stop", which, max_in_flight, dry_run)


@nodes.verb("start")
@_takes_nodes
def start(session: Session, which: tuple[str, ...], max_in_flight: int | None, dry_run: bool) -> int:
    """Create the VMs of stopped nodes again, or of nodes that are not up."""
    return _act(session, "start", which, max_in_flight, dry_run)


def _act(session: Session, verb: str, which: Sequence[str], max_in_flight: int | None, dry_run: bool) -> int:
    deployment, names = find_nodes(session, which)
    request: dict[str, Any] = {"action": verb, "nodes": names}
    if max_in_flight is not None:
        request["max_in_flight"] = max_in_flight
    return plan_request.act(session, deployment, request, dry_run=dry_run)


def find_nodes(session: Session, which: Sequence[str]) -> tuple[str, list[str]]:
    """The deployment that they are all of, and their names in it."""
    found = [session.client.nodes.get(name) for name in which]
    deployments: list[str] = []
    for name, node in zip(which, found, strict=True):
        if node["deployment"] is None:
            raise UsageError(f"{name} is an enrolled node", remedy="Coterie does not change machines it did not create")
        if node["deployment"] not in deployments:
            deployments.append(node["deployment"])
    if len(deployments) > 1:
        raise UsageError(
            f"these nodes are of several deployments: {', '.join(deployments)}", remedy="one deployment at a time"
        )
    return deployments[0], [node["name"] for node in found]
