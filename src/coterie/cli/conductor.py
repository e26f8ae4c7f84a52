"""`coterie conductor`: serve as a conductor."""

from __future__ import annotations

from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.errors import UsageError
from coterie.settings import load


@verb("conductor")
@click.option("--group", "conductor_group", metavar="NAME", help="Site or rack to work for; default: none.")
@click.option("--drivers", metavar="A,B", help="Drivers to offer; default: all that are installed.")
@click.option("--exec-paths", metavar="PATH,…", help="Programs that the driver exec may run; default: none.")
@click.option(
    "--credential-sources", metavar="A,B", help="Credentials of this machine that clouds may use; default: none."
)
@click.option("--database", metavar="URL", help="The Director's database.")
@click.option("--name", "conductor_name", metavar="NAME", help="Unique in the fleet; default: host name and group.")
@click.option("--workers", type=int, metavar="N", help="Steps to run at once.")
@click.option("--weight", type=float, metavar="W", help="Share of the work, beside the others of its group.")
@click.option("--listen", "conductor_listen", metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics there.")
@click.option("--lease", type=float, metavar="S", help="Seconds of silence after which others take over.")
def conductor(session: Session, **options: Any) -> int:
    """Run the work of one group until a signal ends it; what is running then is finished or handed back."""
    settings = load(options)
    if settings["database"] is None:
        raise UsageError(
            "a conductor needs the database of its Director", remedy="give --database URL, or set COTERIE_DATABASE"
        )
    from coterie.conductor.serve import serve
    from coterie.telemetry.log import run_service

    return run_service(settings["log_format"], lambda: serve(settings, settings["database"]))
