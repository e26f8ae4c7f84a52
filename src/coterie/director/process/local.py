"""The local Director: one per state folder, started on demand by the command line, on a unix socket for its owner."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from coterie import settings as settings_room
from coterie.director.process import listen
from coterie.director.process.home import Home
from coterie.director.process.lock import Lock
from coterie.errors import CoterieError, Unreachable
from coterie.settings import Settings

_PATIENCE_S = 20.0


def run(folder: Path, *, parent: bool = False) -> int:
    """Serve until idle. 0 as well when another one serves this folder already."""
    home = Home(folder)
    try:
        settings = settings_room.load({"state": str(folder)})
        home.prepare()
        lock = Lock(home.lock)
        if not _take(lock, home):
            return 0
        try:
            lock.sign(parent=parent)
            _serve(home, settings, parent)
        finally:
            lock.release()
    except CoterieError as error:
        # The last line of the start log is what the command line shows as the reason.
        print(json.dumps(error.facts()), file=sys.stderr, flush=True)
        return 1
    return 0


def _take(lock: Lock, home: Home) -> bool:
    """A Director that is just ending still holds the lock but answers no more: its successor waits for it."""
    give_up = time.monotonic() + _PATIENCE_S
    while not lock.take():
        if listen.answers(home.socket):
            return False
        if time.monotonic() > give_up:
            raise Unreachable(
                f"another process holds {home.lock} but serves nobody",
                remedy="see `coterie local status`; end that process, then try again",
            )
        time.sleep(0.05)
    return True


def _serve(home: Home, settings: Settings, parent: bool) -> None:
    # Imported only by the one that holds the lock: the losers of a race cost almost nothing.
    from coterie.director.process.serve import Service, serve
    from coterie.telemetry import log

    os.umask(0o077)
    log.to_file(home.log)
    minutes = settings["idle_minutes"]
    try:
        serve(
            Service(
                home,
                settings,
                settings["database"] or home.database,
                lambda: listen.unix(home.socket),
                local=True,
                idle_s=minutes * 60 or None,
                parent=parent,
            )
        )
    finally:
        home.socket.unlink(missing_ok=True)
