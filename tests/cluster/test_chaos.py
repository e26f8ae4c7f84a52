"""A deployment over three groups while conductors are killed, paused and added at random; the seed decides everything.

At the end every node is up exactly once, and every datacenter holds exactly what the ledger says of its own group.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.fleet import LEASE_S, Cluster, Process, cluster
from tests.peers.postgres import Server

GROUPS = ("east", "north", "west")


class Chaos(threading.Thread):
    """Strikes every second or so until it is stopped; then everything that it broke is mended."""

    def __init__(self, here: Cluster, seed: int) -> None:
        super().__init__(daemon=True)
        self._here = here
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self.strikes: list[str] = []

    def run(self) -> None:
        while not self._over.wait(self._chance.uniform(0.3, 1.2)):
            self.strike()

    def strike(self) -> None:
        what = self._chance.choice(("kill", "kill", "pause", "add"))
        group = self._chance.choice(GROUPS)
        victim = self._chance.choice([one for name, one in self._here.conductors.items() if name.startswith(group)])
        self.strikes.append(f"{what} {victim.name}")
        if what == "add":
            if len(self._here.conductors) < 9:
                self._here.add_conductor(group)
        elif what == "kill":
            victim.end()
            victim.start()
        else:
            self._pause(victim)

    def _pause(self, victim: Process) -> None:
        victim.send(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.2, 2.5) * LEASE_S)
        victim.send(signal.SIGCONT)

    def stop(self) -> None:
        self._over.set()
        self.join(60)

    def mend(self) -> None:
        """As a service manager does: start the processes that have ended."""
        for one in list(self._here.conductors.values()):
            if not one.alive:
                one.start()


def storm(folder: Path, server: Server, seed: int, nodes: int, patience_s: float = 240) -> None:
    with cluster(folder, server, GROUPS, 2, directors=2) as here:
        chaos = Chaos(here, seed)
        task = here.deploy(nodes)
        chaos.start()
        give_up = time.monotonic() + patience_s
        while here.task(task, director=1)["state"] == "running":
            chaos.mend()
            assert time.monotonic() < give_up, (chaos.strikes, here.task(task)["waiting"])
            time.sleep(0.3)
        chaos.stop()
        ended = here.task(task)
        assert ended["state"] == "done", (chaos.strikes, ended["report"])
        assert chaos.strikes
        struck = Counter(strike.partition(" ")[0] for strike in chaos.strikes)
        took = here.metrics(director=1)['coterie_task_duration_seconds_sum{kind="deploy",state="done"}']
        print(f"seed {seed}: {nodes} nodes in {took:.0f} s, {dict(struck)}, {len(here.conductors)} conductors")
        assert len(here.nodes()) == nodes
        here.check_clouds()


def test_a_small_storm(tmp_path: Path, server: Server) -> None:
    storm(tmp_path, server, seed=1, nodes=60)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_three_hundred_nodes_in_a_storm(tmp_path: Path, server: Server, seed: int) -> None:
    storm(tmp_path, server, seed, nodes=300, patience_s=800)
