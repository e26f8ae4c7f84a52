"""`coterie director`: serve as a Director."""

from __future__ import annotations

from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.director.process.state_folder import StateFolder
from coterie.settings import load


@verb("director")
@click.option("--listen", metavar="HOST:PORT", help="Serve on TCP, to callers with a token; default: the unix socket.")
@click.option("--database", metavar="URL", help="postgresql://… or sqlite:///PATH; default: in the state folder.")
@click.option("--name", metavar="NAME", help="Its name, given at the first start.")
@click.option("--no-conductor", is_flag=True, help="Only plan and answer; conductors elsewhere run the work.")
@click.option("--exec-paths", metavar="PATH,…", help="Programs that the driver exec may run; default: none.")
@click.option(
    "--credential-sources", metavar="A,B", help="Credentials of this machine that clouds may use; on TCP: none."
)
@click.option("--workers", type=int, metavar="N", help="Steps to run at once.")
def director(session: Session, no_conductor: bool, **options: Any) -> int:
    """Serve the API and run the work until a signal ends it.

    On TCP everything but /livez and /readyz needs a token; the first one is made in the state folder. Beyond this
    machine set tls_certificate and tls_key.
    """
    from coterie.director.process.foreground_director import run
    from coterie.telemetry.log import run_service

    settings = load({**options, "conductor": False if no_conductor else None})
    return run_service(settings["log_format"], lambda: run(StateFolder(settings.state), settings))
