"""Forks local Directors from a process that has imported everything: the imports are most of a Director's start.

As a program it reads orders from its standard input and ends with it. Tests of the start itself let commands start one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from coterie.director.process import sockets
from coterie.director.process.state_folder import StateFolder

_PATIENCE_S = 120.0


def start_director(state_folder: StateFolder, environment: Mapping[str, str]) -> None:
    """As the first command of a user does; returns when the Director answers."""
    server = _server()
    assert server.stdin
    server.stdin.write(json.dumps([str(state_folder.path), dict(environment)]) + "\n")
    server.stdin.flush()
    give_up = time.monotonic() + _PATIENCE_S
    while not sockets.answers(state_folder.socket):
        assert server.poll() is None and time.monotonic() < give_up, "the Director does not serve"
        time.sleep(0.02)


@cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "tests.cli.fork_server"], stdin=subprocess.PIPE, text=True)


def _serve_orders() -> None:
    from coterie.cpi.load import driver_class
    from coterie.director.process import run_director
    from tests.ledger import shortcuts

    assert run_director  # imported for those that are forked
    driver_class("sandbox")
    shortcuts.install()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that end need not be waited for
    for line in sys.stdin:
        folder, environment = json.loads(line)
        if os.fork() == 0:
            _run(Path(folder), environment)


def _run(folder: Path, environment: Mapping[str, str]) -> None:
    from coterie.director.process import local_director

    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.environ.clear()
        os.environ.update(environment)
        state_folder = StateFolder(folder)
        state_folder.prepare()
        os.chdir(folder)
        quiet = os.open(os.devnull, os.O_RDONLY)
        output = os.open(state_folder.start_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for standard, new in enumerate((quiet, output, output)):
            os.dup2(new, standard)
        status = local_director.run(folder)
    finally:
        os._exit(status)


if __name__ == "__main__":
    _serve_orders()
