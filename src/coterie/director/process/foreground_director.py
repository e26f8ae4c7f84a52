"""A Director in the foreground, as `coterie director` runs it: on TCP with a token, or on the unix socket."""

from __future__ import annotations

import logging
import os

from coterie.director.process import sockets
from coterie.director.process.http_server import read_tls
from coterie.director.process.run_director import RunOptions, run_director
from coterie.director.process.state_folder import Lock, StateFolder
from coterie.errors import Conflict, UsageError
from coterie.settings import Settings
from coterie.sockets import is_loopback

logger = logging.getLogger(__name__)


def run(state_folder: StateFolder, settings: Settings) -> None:
    state_folder.prepare()
    lock = Lock(state_folder.lock)
    if not lock.take():
        raise Conflict(
            f"another Director serves the state folder {state_folder.path}",
            remedy="end it with `coterie local stop`, or set COTERIE_STATE to another folder",
        )
    try:
        lock.write_holder()
        os.umask(0o077)
        run_director(_service(state_folder, settings))
    finally:
        lock.release()


def _service(state_folder: StateFolder, settings: Settings) -> RunOptions:
    database = settings["database"] or state_folder.database
    address: str | None = settings["listen"]
    if address is None:
        return RunOptions(state_folder, settings, database, lambda: sockets.unix(state_folder.socket))
    tls = read_tls(settings)
    if tls is None and not is_loopback(address.rpartition(":")[0]):
        _require_plain_http(settings, address)
    return RunOptions(
        state_folder,
        settings,
        database,
        lambda: sockets.tcp(address),
        token=settings["token"],
        guarded=True,
        tls=tls,
    )


def _require_plain_http(settings: Settings, address: str) -> None:
    if not settings["plain_http"]:
        raise UsageError(
            f"other machines can reach {address}, and tokens would travel unencrypted",
            remedy="set tls_certificate and tls_key; where a proxy or a sidecar adds TLS, set COTERIE_PLAIN_HTTP=true",
        )
    logger.warning("tokens travel unencrypted to %s: plain_http is set", address)
