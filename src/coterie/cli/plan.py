"""`coterie plan`: what a deploy would do. Changes no cloud and no record."""

from __future__ import annotations

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.variables import Variables, takes_variables

CHANGES_PENDING = 3


@verb("plan")
@click.argument("manifest")
@click.option("--cloud-config", metavar="FILE", help="Plan with this cloud config instead of the one that is set.")
@click.option("--recreate", is_flag=True, help="Recreate VMs although nothing about them changed.")
@click.option("--node", "nodes", multiple=True, metavar="GROUP/INDEX", help="Only this node; may be repeated.")
@click.option(
    "--reuse-disks/--no-reuse-disks",
    default=None,
    help="Give new nodes the kept disks of nodes of their names, or empty ones; default: empty ones.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 3 when there are changes.")
@click.option("--save", metavar="FILE", help="Keep it for `coterie deploy --plan FILE`, clouds' properties sealed.")
@click.option("--detail", is_flag=True, help="Show every change.")
@takes_variables
def plan(
    session: Session,
    manifest: str,
    cloud_config: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    reuse_disks: bool | None,
    variables: Variables,
    exit_code: bool,
    save: str | None,
    detail: bool,
) -> int:
    """Show what `coterie deploy MANIFEST` would do, and why."""
    request = plan_request.deploy_request(session, manifest, cloud_config, recreate, nodes, reuse_disks)
    made = plan_request.request_plan(session, variables.resolve(request), detail=detail, kept=save is not None)
    plan_request.show(session, made)
    if save:
        plan_request.save(save, plan_request.seal_request(session, request), made)
        session.say(f"saved; apply it with: coterie deploy --plan {save}")
    return CHANGES_PENDING if exit_code and (made["changes"] or made.get("switches")) else 0
