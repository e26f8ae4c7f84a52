"""`coterie sandbox serve`: the simulated datacenter behind a real cloud's API, for clients that know only that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import click

from coterie.cli.frame.session import Session
from coterie.cli.sandbox.noun import at_state, open_state, sandbox
from coterie.cli.show.table import as_json
from coterie.errors import UsageError

if TYPE_CHECKING:
    from coterie.sandbox.datacenter import Datacenter


class _Server(Protocol):
    def serve_forever(self) -> None: ...

    def server_close(self) -> None: ...


_Opened = tuple[_Server, dict[str, Any], Callable[[], None]]
_ACCOUNT = "aws"  # whose objects the front of AWS shows


@sandbox.verb("serve")
@at_state
@click.option(
    "--api", type=click.Choice(["cloudstack", "aws", "azure", "gcp"]), default="cloudstack", show_default=True
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback; default: any free one.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the API, such as expunge.delay=60."
)
def serve(session: Session, api: str, port: int, settings: tuple[str, ...]) -> None:
    """Serve until interrupted. Prints the endpoint, and what clients log in with: of CloudStack the keys of an
    administrator and of a user, of Azure and GCP the properties of a cloud.

    CloudStack's settings are told by `listConfigurations`, asked as the administrator; Azure's are in docs/azure.md,
    GCP's in docs/gcp.md. AWS is EC2, EBS direct and STS of one account, and takes any keys; its client tokens and
    images last as long as it runs.
    """
    open_server = {"cloudstack": _open_cloudstack, "aws": _open_aws, "azure": _open_azure, "gcp": _open_gcp}[api]
    try:
        server, shown, close = open_server(open_state(session), port, _read(settings))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"port {port} cannot be had", why=why, remedy="choose another, or 0") from error
    try:
        _print_endpoint(session, shown)
        server.serve_forever()
    except KeyboardInterrupt:
        session.say("stopped; what was made is kept in the state file")
    finally:
        server.server_close()
        close()


def _open_cloudstack(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> _Opened:
    from coterie.sandbox.fronts.cloudstack.configuration import KNOWN, change
    from coterie.sandbox.fronts.cloudstack.server import Server

    _require_known(settings, KNOWN)
    server = Server(datacenter, port)
    with datacenter.store.writing() as db:
        for name, value in settings.items():
            change(db, name, value)
    pairs = {one.account: {"api_key": one.api_key, "secret_key": one.secret_key} for one in server.front.keys}
    return server, {"endpoint": server.endpoint, "accounts": pairs}, server.front.close


def _open_aws(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> _Opened:
    from coterie.sandbox.accounts import open_account
    from coterie.sandbox.fronts.aws.front import REGION
    from coterie.sandbox.fronts.aws.rows import DEFAULT_SUBNET
    from coterie.sandbox.fronts.aws.server import Server
    from coterie.sandbox.hosts import all_hosts

    if settings:
        raise UsageError(f"--set {next(iter(settings))}: the front of AWS has no settings", remedy="leave it out")
    server = Server(open_account(datacenter, _ACCOUNT), port)
    zones = sorted({host.zone for host in all_hosts(datacenter.store)})
    facts = {
        "endpoint": server.endpoint,
        "region": REGION,
        "access_key_id": "any",
        "secret_access_key": "any",
        "subnets": {zone: f"{DEFAULT_SUBNET}{zone}" for zone in zones},
    }
    return server, facts, lambda: None


def _open_azure(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> _Opened:
    from coterie.sandbox.fronts.azure.serving import KNOWN, open_server, properties_of, read_settings

    _require_known(settings, KNOWN)
    server = open_server(datacenter, port, read_settings(settings))
    return server, {"endpoint": server.origin, "properties": properties_of(server)}, lambda: None


def _open_gcp(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> _Opened:
    from coterie.sandbox.fronts.gcp.serving import KNOWN, open_server, properties_of, read_settings

    _require_known(settings, KNOWN)
    server = open_server(datacenter, port, read_settings(settings))
    return server, {"endpoint": server.origin, "properties": properties_of(server)}, lambda: None


def _require_known(settings: Mapping[str, str], known: Mapping[str, Any]) -> None:
    for name in settings:
        if name not in known:
            raise UsageError(f"--set {name}: there is no such setting", remedy=f"use one of: {', '.join(known)}")


def _read(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"--set {one!r} has no value", remedy="write --set NAME=VALUE")
        found[name] = value
    return found


def _print_endpoint(session: Session, shown: Mapping[str, Any]) -> None:
    if session.json:
        session.data(as_json(shown))
        return
    lines = []
    for name, value in shown.items():
        if name == "accounts":
            for account, keys in value.items():
                pair = f"api key     {keys['api_key']}", f"secret key  {keys['secret_key']}"
                lines += ["", f"account     {account}", *pair]
        elif isinstance(value, Mapping):
            lines += ["", f"{name}:", *(f"  {key}: {_in_yaml(one)}" for key, one in value.items())]
        else:
            lines.append(f"{name:<11} {value}")
    session.data("\n".join(lines))


def _in_yaml(value: Any) -> Any:
    """JSON is YAML."""
    return json.dumps(value) if isinstance(value, (Mapping, list)) else value
