"""The local Director as a process: start, look, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from coterie.client.routes import connect_unix
from coterie.director.process.state_folder import StateFolder, read_holder
from coterie.errors import CoterieError, Unreachable

_STOP_S = 40.0


class Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def has_failed(self) -> bool:
        """Ended with an error; one that found another Director in its place ends without."""
        return self._process.poll() not in (None, 0)

    def has_ended(self) -> bool:
        return self._process.poll() == 0

    def end(self) -> None:
        """Close its standard input, which ends it, and wait."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()


def start(state_folder: StateFolder, *, foreground: bool) -> Child:
    """Detached: a session of its own, so that Ctrl-C in the terminal reaches the command only."""
    # -P: nothing that lies in the working folder may stand in for a module.
    command = [sys.executable, "-P", "-m", "coterie.director", "--local", str(state_folder.path)]
    with _fresh(state_folder.start_log) as output:
        process = subprocess.Popen(
            [*command, "--parent"] if foreground else command,
            stdin=subprocess.PIPE if foreground else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=state_folder.path,
            start_new_session=True,
        )
    return Child(process)


def answers(state_folder: StateFolder) -> bool:
    try:
        connect_unix(state_folder.socket, 5).close()
    except OSError:
        return False
    return True


def explain(state_folder: StateFolder) -> CoterieError:
    """Why the start failed: the typed error in the last line of its log, or that line itself."""
    lines = [line for line in _text(state_folder.start_log).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    try:
        facts = json.loads(last)
        error = CoterieError(facts["what"], why=facts["why"], remedy=facts["remedy"])
        error.code = facts["code"]
    except (ValueError, KeyError, TypeError):
        error = CoterieError(
            "the local Director could not start",
            why=last,
            remedy=f"look into {state_folder.start_log} and {state_folder.log}",
        )
    return error


def stop(state_folder: StateFolder, timeout_s: float = _STOP_S) -> bool:
    """End the Director of this folder in good order; False if none runs."""
    running = read_holder(state_folder.lock)
    if running is None:
        return False
    try:
        os.kill(running.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    give_up = time.monotonic() + timeout_s
    while read_holder(state_folder.lock) is not None:
        if time.monotonic() > give_up:
            raise Unreachable(
                f"the local Director (process {running.pid}) does not end",
                why=f"it got the signal {timeout_s:.0f} s ago",
                remedy=f"look into {state_folder.log}; its work is safe: it may be killed, and the next start goes on",
            )
        time.sleep(0.02)
    return True


def _fresh(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
