"""The local Director: one per state folder, started on demand by the command line, on a unix socket for its owner."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from coterie.director.process import sockets
from coterie.director.process.state_folder import Lock, StateFolder
from coterie.errors import CoterieError, Unreachable
from coterie.settings import Settings, load

_PATIENCE_S = 20.0


def run(folder: Path, *, parent: bool = False) -> int:
    """Serve until idle. 0 as well when another one serves this folder already."""
    state_folder = StateFolder(folder)
    try:
        settings = load({"state": str(folder)})
        state_folder.prepare()
        lock = Lock(state_folder.lock)
        if not _take(lock, state_folder):
            return 0
        try:
            lock.write_holder(parent=parent)
            _serve(state_folder, settings, parent)
        finally:
            lock.release()
    except CoterieError as error:
        # The command line shows the last line of the start log as the reason.
        print(json.dumps(error.facts()), file=sys.stderr, flush=True)
        return 1
    return 0


def _take(lock: Lock, state_folder: StateFolder) -> bool:
    """A Director that is ending still holds the lock but no longer answers: wait for it."""
    give_up = time.monotonic() + _PATIENCE_S
    while not lock.take():
        if sockets.answers(state_folder.socket):
            return False
        if time.monotonic() > give_up:
            raise Unreachable(
                f"another process holds {state_folder.lock} but does not answer",
                remedy="see `coterie local status`; end that process, then try again",
            )
        time.sleep(0.05)
    return True


def _serve(state_folder: StateFolder, settings: Settings, parent: bool) -> None:
    # Imported only by the process that holds the lock: those that lose the race end quickly.
    from coterie.director.process.run_director import RunOptions, run_director
    from coterie.telemetry import log

    os.umask(0o077)
    log.to_file(state_folder.log)
    minutes = settings["idle_minutes"]
    try:
        run_director(
            RunOptions(
                state_folder,
                settings,
                settings["database"] or state_folder.database,
                lambda: sockets.unix(state_folder.socket),
                local=True,
                idle_s=minutes * 60 or None,
                parent=parent,
            )
        )
    finally:
        state_folder.socket.unlink(missing_ok=True)
