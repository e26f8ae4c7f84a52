"""A Director in the foreground, as `coterie director` runs it: on TCP with a token, or on the unix socket."""

from __future__ import annotations

import os
from collections.abc import Callable

from coterie.director import listen, token
from coterie.director.home import Home
from coterie.director.lock import Lock
from coterie.director.serve import Service, serve
from coterie.errors import Conflict
from coterie.settings import Settings
from coterie.telemetry import log


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
    secret = token.obtain(settings["token"], home.token)
    if not settings["token"]:
        say(f"the token is in {home.token}")
    return Service(home, settings, database, lambda: listen.tcp(address), token=secret)
