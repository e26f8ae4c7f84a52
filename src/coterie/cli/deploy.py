"""`coterie deploy`: plan, show, ask, start, follow."""

from __future__ import annotations

from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.link.api import part
from coterie.cli.plans import file, wish
from coterie.cli.watch.task import started
from coterie.errors import UsageError


@verb("deploy")
@click.argument("manifest", required=False)
@click.option("--cloud-config", metavar="FILE", help="Set this cloud config first.")
@click.option("--plan", "plan_file", metavar="FILE", help="Apply a saved plan; refused (6) once it is stale.")
@click.option("--recreate", is_flag=True, help="Recreate VMs although nothing about them changed.")
@click.option("--node", "nodes", multiple=True, metavar="GROUP/INDEX", help="Only this node; may be repeated.")
@click.option("--team", metavar="NAME", help="Team that a new deployment belongs to.")
@click.option("--dry-run", is_flag=True, help="Show the plan and stop.")
@click.option("--detail", is_flag=True, help="Show every change of the plan.")
def deploy(
    session: Session,
    manifest: str | None,
    cloud_config: str | None,
    plan_file: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    team: str | None,
    dry_run: bool,
    detail: bool,
) -> int:
    """Make a deployment be as MANIFEST says ("-": standard input).

    Shows the plan and asks. Without a terminal a plan that destroys nothing is done at once; one that does needs
    --yes. Ctrl-C leaves the task running: follow it again with `coterie tasks watch`.
    """
    wished, plan = _planned(session, manifest, cloud_config, plan_file, recreate, nodes, detail)
    if dry_run or not (session.json or session.quiet):
        wish.show(session, plan)
    if dry_run:
        return 0
    wish.agree(session, plan)
    body = {**wished, "plan": plan["id"], **({"team": team} if team else {})}
    task = session.api.start("PUT", f"/v1/deployments/{part(plan['deployment'])}", body)
    return started(session, task)


def _planned(
    session: Session,
    manifest: str | None,
    cloud_config: str | None,
    plan_file: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    detail: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    if plan_file and (manifest or cloud_config or recreate or nodes):
        raise UsageError("a saved plan says it all", remedy="give either MANIFEST and its options, or --plan FILE")
    if plan_file:
        return file.load(plan_file)
    if manifest is None:
        raise UsageError("which manifest?", remedy="coterie deploy MANIFEST, or coterie deploy --plan FILE")
    wished = wish.deploy_wish(session, manifest, cloud_config, recreate, nodes)
    return wished, wish.ask(session, wished, detail=detail)
