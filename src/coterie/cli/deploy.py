"""`coterie deploy`: plan, show, ask, start, follow."""

from __future__ import annotations

from typing import Any

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.variables import Variables, takes_variables
from coterie.cli.watch.task import watch_or_leave
from coterie.errors import UsageError


@verb("deploy")
@click.argument("manifest", required=False)
@click.option("--cloud-config", metavar="FILE", help="Set this cloud config first.")
@click.option("--plan", "plan_file", metavar="FILE", help="Apply a saved plan; refused (6) once it is stale.")
@click.option("--recreate", is_flag=True, help="Recreate VMs although nothing about them changed.")
@click.option("--node", "nodes", multiple=True, metavar="GROUP/INDEX", help="Only this node; may be repeated.")
@click.option(
    "--reuse-disks/--no-reuse-disks",
    default=None,
    help="Give new nodes the kept disks of nodes of their names, or empty ones; default: ask on a terminal.",
)
@click.option("--team", metavar="NAME", help="Team that a new deployment belongs to.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--detail", is_flag=True, help="Show every change of the plan.")
@takes_variables
def deploy(
    session: Session,
    manifest: str | None,
    cloud_config: str | None,
    plan_file: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    reuse_disks: bool | None,
    variables: Variables,
    team: str | None,
    dry_run: bool,
    detail: bool,
) -> int:
    """Create or change a deployment as described in MANIFEST ("-": standard input).

    Shows the plan and asks for confirmation. Without a terminal a plan that destroys nothing starts at once; any other
    needs --yes. Ctrl-C leaves the task running: follow it again with `coterie tasks watch`.
    """
    request, plan = _request_plan(
        session, manifest, cloud_config, plan_file, recreate, nodes, reuse_disks, variables, detail
    )
    if dry_run or not (session.json or session.quiet):
        plan_request.show(session, plan)
    if dry_run:
        return 0
    if reuse_disks is None and plan_file is None:
        request, plan = plan_request.offer_disks(session, request, plan, detail=detail)
    plan_request.agree(session, plan)
    body = {**request, "plan": plan["id"], **({"team": team} if team else {})}
    task = session.client.deployments.deploy(plan["deployment"], **body)
    return watch_or_leave(session, task)


def _request_plan(
    session: Session,
    manifest: str | None,
    cloud_config: str | None,
    plan_file: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    reuse_disks: bool | None,
    variables: Variables,
    detail: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    if plan_file and (manifest or cloud_config or recreate or nodes or reuse_disks is not None):
        raise UsageError(
            "a saved plan takes no other options", remedy="give either MANIFEST and its options, or --plan FILE"
        )
    if plan_file:
        saved, plan = plan_request.load(plan_file)
        return variables.resolve(saved), plan
    if manifest is None:
        raise UsageError("which manifest?", remedy="coterie deploy MANIFEST, or coterie deploy --plan FILE")
    request = plan_request.deploy_request(session, manifest, cloud_config, recreate, nodes, reuse_disks)
    request = variables.resolve(request)
    return request, plan_request.request_plan(session, request, detail=detail)
