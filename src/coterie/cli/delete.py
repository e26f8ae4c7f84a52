"""`coterie delete`: delete a deployment; its disks are kept unless told otherwise."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.link.api import part
from coterie.cli.plans import wish
from coterie.cli.watch.task import started


@verb("delete")
@click.argument("name")
@click.option("--delete-disks", is_flag=True, help="Delete its persistent disks too; there is no way back.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
def delete(session: Session, name: str, delete_disks: bool, dry_run: bool) -> int:
    """Delete the deployment NAME: its VMs, then its server groups. Persistent disks are kept."""
    wished = {"deployment": name, "delete": True, "delete_disks": delete_disks}
    plan = wish.ask(session, wished, detail=True)
    if dry_run or not (session.json or session.quiet):
        wish.show(session, plan)
    if dry_run:
        return 0
    session.confirm(f"Delete deployment {name}{' and its disks' if delete_disks else ''}?")
    task = session.api.start("DELETE", f"/v1/deployments/{part(name)}", delete_disks=delete_disks, plan=plan["id"])
    return started(session, task)
