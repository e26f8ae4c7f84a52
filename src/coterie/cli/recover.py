"""`coterie recover`: write the ledger of a deployment again from the marks in its clouds; shown first, then applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coterie.cli import plan_request
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json, table
from coterie.cli.variables import Variables, takes_variables

_DOCUMENTS = ("manifest", "manifest_file", "cloud_config", "config_file")
_LEFT = 3


@verb("recover")
@click.argument("manifest")
@click.option("--cloud-config", metavar="FILE", help="Set this cloud config too.")
@click.option("--dry-run", is_flag=True, help="Show what was found and stop.")
@takes_variables
def recover(session: Session, manifest: str, cloud_config: str | None, variables: Variables, dry_run: bool) -> int:
    """Write the ledger of a deployment again, as MANIFEST and the marks in its clouds show it.

    For a ledger that was lost or restored from an old backup. Changes no cloud. Shows what it found and asks first.
    Exits with 3 if something was left out because it could not be proved to belong to the deployment.
    """
    asked = variables.resolve(plan_request.deploy_request(session, manifest, cloud_config, False, ()))
    request = {name: asked[name] for name in _DOCUMENTS}
    found = session.client.recoveries.plan(**request)
    if session.json:
        session.data(as_json(found))
    else:
        _show(session, found)
    taken = [item for item in found["items"] if item["taken"]]
    if taken and not dry_run:
        session.confirm(f"Write {len(taken)} objects into the ledger?")
        session.client.recoveries.apply(**request, plan=found["id"])
        session.say(f"done; see what is different now: coterie plan {manifest}")
    return 0 if len(taken) == len(found["items"]) else _LEFT


def _show(session: Session, found: Mapping[str, Any]) -> None:
    rows = [
        ("take" if item["taken"] else "leave", *[item[name] for name in ("kind", "name", "cloud", "cid", "why")])
        for item in found["items"]
    ]
    if rows:
        session.data(table(("ACTION", "KIND", "NAME", "CLOUD", "CID", "WHY"), rows, session.paint))
    session.say(f"{len(rows)} found, {found['known']} are in the ledger already")
