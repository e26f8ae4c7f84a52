"""`coterie sandbox serve`: the simulated datacenter behind a real cloud's API, for clients that know only that."""

from __future__ import annotations

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


@sandbox.verb("serve")
@at_state
@click.option("--api", type=click.Choice(["cloudstack", "azure"]), default="cloudstack", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On loopback; default: any free one.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the API, such as expunge.delay=60."
)
def serve(session: Session, api: str, port: int, settings: tuple[str, ...]) -> None:
    """Serve until interrupted. Prints the endpoint, and what clients log in with: of CloudStack the keys of an
    administrator and of a user, of Azure the properties of a cloud.

    CloudStack's settings are told by `listConfigurations`, asked as the administrator; Azure's are in docs/azure.md.
    """
    open_server = {"cloudstack": _open_cloudstack, "azure": _open_azure}[api]
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


def _open_azure(datacenter: Datacenter, port: int, settings: Mapping[str, str]) -> _Opened:
    from coterie.sandbox.fronts.azure.serving import KNOWN, open_server, properties_of, read_settings

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
    lines = [f"endpoint    {shown['endpoint']}"]
    for account, keys in (shown.get("accounts") or {}).items():
        lines += ["", f"account     {account}", f"api key     {keys['api_key']}", f"secret key  {keys['secret_key']}"]
    if "properties" in shown:
        lines += ["", "properties:", *(f"  {name}: {value}" for name, value in shown["properties"].items())]
    session.data("\n".join(lines))
