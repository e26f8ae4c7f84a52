"""A Director in the foreground, as `coterie director` runs it: on TCP with a token, or on the unix socket."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from coterie.director.process import listen
from coterie.director.process.home import Home
from coterie.director.process.lock import Lock
from coterie.director.process.serve import Service, serve
from coterie.director.process.tls import tls_of
from coterie.errors import Conflict
from coterie.settings import Settings
from coterie.telemetry import log

log_room = logging.getLogger(__name__)


def run(home: Home, settings: Settings, say: Callable[[str], None]) -> None:
    home.prepare()
    lock = Lock(home.lock)
    if not lock.take():
        raise Conflict(
            f"another Director serves the state folder {home.folder}",
            remedy="end it with `coterie local stop`, or set COTERIE_STATE to another folder",
        )
    try:
        lock.sign()
        os.umask(0o077)
        log.to_terminal(settings["log_format"])
        serve(_service(home, settings, say))
    finally:
        lock.release()


def _service(home: Home, settings: Settings, say: Callable[[str], None]) -> Service:
    database = settings["database"] or home.database
    address: str | None = settings["listen"]
    if address is None:
        return Service(home, settings, database, lambda: listen.unix(home.socket))
    tls = tls_of(settings)
    if tls is None and not listen.loopback(address):
        log_room.warning("%s is not on this machine alone, and tokens travel unprotected: set tls_certificate", address)
    if not settings["token"]:
        say(f"the first admin token of a new ledger is in {home.token}")
    return Service(
        home, settings, database, lambda: listen.tcp(address), token=settings["token"], guarded=True, tls=tls
    )
