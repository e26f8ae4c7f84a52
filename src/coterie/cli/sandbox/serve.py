"""`coterie sandbox serve`: the simulated datacenter behind a real cloud's API, for clients that know only that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.frame.session import Session
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.sandbox.datacenter import Datacenter
    from coterie.sandbox.fronts.aws.server import Server as AwsServer
    from coterie.sandbox.fronts.cloudstack.server import Server

S = TypeVar("S")
_ACCOUNT = "aws"  # whose objects the front of AWS shows


@sandbox.verb("serve")
@at_state
@click.option("--api", type=click.Choice(["cloudstack", "aws"]), default="cloudstack", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback; default: any free one.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A global setting of CloudStack, such as expunge.delay=60.",
)
def serve(session: Session, api: str, port: int, settings: tuple[str, ...]) -> None:
    """Serve until interrupted. Prints the endpoint and keys; of CloudStack those of an administrator and of a user.

    `listConfigurations`, asked as the administrator of CloudStack, shows all settings. AWS is EC2, EBS direct and
    STS of one account, and takes any keys; its client tokens and images last as long as it runs.
    """
    if api == "aws":
        _serve_aws(session, port, settings)
        return
    server = _open_server(open_state(session), port, _read(settings))
    try:
        _print_endpoint(session, server)
        server.serve_forever()
    except KeyboardInterrupt:
        session.say("stopped; what was made is kept in the state file")
    finally:
        server.server_close()
        server.front.close()


def _serve_aws(session: Session, port: int, settings: tuple[str, ...]) -> None:
    from coterie.sandbox.accounts import open_account
    from coterie.sandbox.fronts.aws.front import REGION
    from coterie.sandbox.fronts.aws.rows import DEFAULT_SUBNET
    from coterie.sandbox.fronts.aws.server import Server
    from coterie.sandbox.hosts import all_hosts

    if settings:
        raise UsageError(f"--set {settings[0]!r}: the front of AWS has no settings", remedy="leave it out")
    datacenter = open_state(session)
    server: AwsServer = _listen(lambda: Server(open_account(datacenter, _ACCOUNT), port), port)
    zones = sorted({host.zone for host in all_hosts(datacenter.store)})
    facts: dict[str, Any] = {
        "endpoint": server.endpoint,
        "region": REGION,
        "access_key_id": "any",
        "secret_access_key": "any",
        "subnets": {zone: f"{DEFAULT_SUBNET}{zone}" for zone in zones},
    }
    try:
        subnets = ", ".join(f"{name} in zone {zone}" for zone, name in facts["subnets"].items())
        lines = [f"{key:<18} {subnets if key == 'subnets' else value}" for key, value in facts.items()]
        session.data(as_json(facts) if session.json else "\n".join(lines))
        server.serve_forever()
    except KeyboardInterrupt:
        session.say("stopped; what was made is kept in the state file")
    finally:
        server.server_close()


def _listen(open_server: Callable[[], S], port: int) -> S:
    try:
        return open_server()
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"port {port} cannot be had", why=why, remedy="choose another, or 0") from error


def _open_server(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> Server:
    from coterie.sandbox.fronts.cloudstack.configuration import KNOWN, change
    from coterie.sandbox.fronts.cloudstack.server import Server

    for name in settings:
        if name not in KNOWN:
            raise UsageError(f"--set {name}: there is no such setting", remedy=f"use one of: {', '.join(KNOWN)}")
    server = _listen(lambda: Server(datacenter, port), port)
    with datacenter.store.writing() as db:
        for name, value in settings.items():
            change(db, name, value)
    return server


def _read(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"--set {one!r} has no value", remedy="write --set NAME=VALUE")
        found[name] = value
    return found


def _print_endpoint(session: Session, server: Server) -> None:
    keys = server.front.keys
    if session.json:
        pairs = {one.account: {"api_key": one.api_key, "secret_key": one.secret_key} for one in keys}
        session.data(as_json({"endpoint": server.endpoint, "accounts": pairs}))
        return
    lines = [f"endpoint    {server.endpoint}"]
    for one in keys:
        lines += ["", f"account     {one.account}", f"api key     {one.api_key}", f"secret key  {one.secret_key}"]
    session.data("\n".join(lines))
