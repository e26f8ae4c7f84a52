"""A storm of kills: tasks are carried out by one conductor after another, each of which dies soon after its start.

As a program it is such a conductor.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.engine.runner import Retry
from coterie.ledger.store import Ledger
from coterie.ledger.tables import tasks

_ROOT = Path(__file__).parents[2]


def run_in_storm(url: str, folder: Path, *wanted: int, kills: int, longest_s: float, patience_s: float = 600.0) -> int:
    """Until these tasks have ended, with at most so many kills, each at some moment of the first `longest_s` after a
    start; how many there were."""
    chance, ledger, killed = random.Random(7), Ledger.open(url), 0
    give_up = time.monotonic() + patience_s
    try:
        while not _have_ended(ledger, wanted, 0.0):
            assert time.monotonic() < give_up, f"after {killed} kills the tasks {wanted} have not ended"
            worker = _start(url, folder)
            rest = chance.uniform(0.0, longest_s) if killed < kills else give_up - time.monotonic()
            if _have_ended(ledger, wanted, rest):
                worker.terminate()
            else:
                worker.kill()
                killed += 1
            worker.wait()
    finally:
        ledger.close()
    return killed


def _start(url: str, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.kill.storm", url, str(folder)]
    worker = subprocess.Popen(words, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    assert worker.stdout
    assert worker.stdout.readline() == "started\n"
    return worker


def _have_ended(ledger: Ledger, wanted: tuple[int, ...], patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    query = sa.select(tasks.c.id).where(tasks.c.id.in_(wanted), tasks.c.state.in_(("running", "cancelling")))
    while True:
        with ledger.read() as tx:
            if tx.execute(query).first() is None:
                return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)


def main(url: str, folder: str) -> None:
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    retry = Retry(first_s=0.01, longest_s=0.5)
    worker = Conductor(Ledger.open(url), "storm", state_folder=Path(folder), ttl_s=5.0, retry=retry)
    worker.start()
    print("started", flush=True)
    over.wait()
    worker.drain(5.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
