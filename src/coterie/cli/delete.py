"""`coterie delete`: delete a deployment; its disks are kept unless --delete-disks is given."""

from __future__ import annotations

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.watch.task import watch_or_leave
from coterie.errors import UsageError


@verb("delete")
@click.argument("name")
@click.option(
    "--delete-disks",
    is_flag=True,
    help="Delete its persistent disks too, kept ones as well; no way back.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--abandon", is_flag=True, help="Call no cloud: forget it, and leave what it has to `coterie cleanup`.")
def delete(session: Session, name: str, delete_disks: bool, dry_run: bool, abandon: bool) -> int:
    """Delete the deployment NAME: its VMs, then its server groups. Persistent disks are kept."""
    if abandon:
        return _abandon(session, name, delete_disks or dry_run)
    request = {"deployment": name, "delete": True, "delete_disks": delete_disks}
    plan = plan_request.request_plan(session, request, detail=True)
    if dry_run or not (session.json or session.quiet):
        plan_request.show(session, plan)
    if dry_run:
        return 0
    session.confirm(f"Delete deployment {name}{' and its disks' if delete_disks else ''}?")
    task = session.client.deployments.delete(name, delete_disks=delete_disks, plan=plan["id"])
    return watch_or_leave(session, task)


def _abandon(session: Session, name: str, more: bool) -> int:
    if more:
        raise UsageError("--abandon goes with no other option", remedy="the disks are left to `coterie cleanup` too")
    session.confirm(f"Abandon deployment {name} without calling its clouds?")
    session.client.deployments.abandon(name)
    session.say(f"{name} is abandoned; see what it left: coterie cleanup")
    return 0
