"""All that users do, while conductors, Directors, PostgreSQL and the way to it are struck; the seed decides everything.

No strike is a reason for a task to fail. After each action every node is up, and its VM is in the datacenter of its own
group; after the delete the datacenters hold nothing.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
import urllib.error
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fleet import LEASE_S, Cluster, Process, cluster
from tests.peers.postgres import Server
from tests.peers.tcp_proxy import Proxy, proxy

GROUPS = ("east", "west")
_FEWEST = 3  # strikes


class Striker(threading.Thread):
    """Strikes until it is stopped, and starts again what has ended, as a service manager does."""

    def __init__(self, here: Cluster, way: Proxy, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self._here, self._way, self._server = here, way, server
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self.strikes: Counter[str] = Counter()

    def run(self) -> None:
        while not self._over.wait(self._chance.uniform(4.0, 8.0)):
            strike = self._chance.choice(
                (self._kill, self._kill, self._pause, self._kill_director, self._restart, *self._network)
            )
            strike()
            self.strikes[strike.__name__.strip("_")] += 1
            self._mend()

    def stop(self) -> None:
        self._over.set()
        self.join(60)
        self._way.latency_s = 0.0
        self._mend()

    @property
    def _network(self) -> tuple[Callable[[], object], ...]:
        return self._reset, self._mute, self._delay

    def _kill(self) -> None:
        self._victim().end()

    def _pause(self) -> None:
        victim = self._victim()
        victim.send(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.5, 2.0) * LEASE_S)
        victim.send(signal.SIGCONT)

    def _kill_director(self) -> None:
        self._chance.choice(self._here.directors).end()

    def _restart(self) -> None:
        self._server.stop()
        self._server.start()

    def _reset(self) -> None:
        self._way.reset()

    def _mute(self) -> None:
        self._way.mute()

    def _delay(self) -> None:
        self._way.latency_s = 0.02
        time.sleep(1.0)
        self._way.latency_s = 0.0

    def _victim(self) -> Process:
        return self._chance.choice(list(self._here.conductors.values()))

    def _mend(self) -> None:
        for one in [*self._here.conductors.values(), *self._here.directors]:
            if not one.alive:
                one.start()


class User:
    """Repeats what is not answered under the same Idempotency-Key, and asks the other Director then."""

    def __init__(self, here: Cluster, give_up: float) -> None:
        self._here = here
        self._give_up = give_up

    def act(self, method: str, body: Any = None) -> None:
        accepted = self._ask(method, "/v1/deployments/dep", body, {"Idempotency-Key": str(uuid.uuid4())})
        if accepted is None:
            return
        task = accepted["task_id"]
        while (found := self.get(f"/v1/tasks/{task}"))["state"] in ("running", "cancelling"):
            assert time.monotonic() < self._give_up, found
            time.sleep(0.3)
        assert found["state"] == "done", found["report"]

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None, {})

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        """None: it is deleted already, by this request before its Director was killed and its answer lost."""
        director, lost = 0, False
        while True:
            assert time.monotonic() < self._give_up, f"{method} {path} is not answered"
            try:
                return self._here.send(method, path, body, director, headers)
            except urllib.error.HTTPError as error:
                told = json.loads(error.read())  # every answer is a problem, also that of a Director that ends
                if error.code == 404 and method == "DELETE" and lost:
                    return None
                assert error.code in (409, 500, 502, 503, 504), told
                lost = lost or error.code >= 500
            except (OSError, ValueError):
                lost = True  # the Director was killed
            director = 1 - director
            time.sleep(0.3)


def storm(folder: Path, server: Server, seed: int, nodes: int, patience_s: float) -> None:
    print(f"seed {seed}")
    with (
        proxy(server.url) as way,
        cluster(folder, server, GROUPS, 2, directors=2, database=way.url(server.url)) as here,
    ):
        user = User(here, time.monotonic() + patience_s)
        director = user.get("/v1/info")["director"]["uuid"]
        striker = Striker(here, way, server, seed)
        striker.start()
        config = here.config()
        spread = {"manifest": here.manifest(nodes), "cloud_config": config}
        while striker.strikes.total() < _FEWEST:  # a quick machine is through before the first
            for size, body in (
                (nodes, spread),
                (nodes + 4, {**spread, "manifest": here.manifest(nodes + 4)}),
                (nodes + 4, {**spread, "manifest": here.manifest(nodes + 4), "recreate": True}),
                (nodes, {**spread, "manifest": here.manifest(nodes, "soft-affinity")}),
            ):
                user.act("PUT", body)
                _check(here, user, director, size)
        user.act("DELETE")
        striker.stop()
        user.act("PUT", spread)  # what came late is deleted with the groups, so a last delete leaves nothing
        user.act("DELETE")
        print(f"seed {seed}: {dict(striker.strikes)}")
        kinds = ("vm", "server_group")
        left = {(group, kind): here.held(group, group, director, kind) for group in GROUPS for kind in kinds}
        assert not any(left.values()), left


def _check(here: Cluster, user: User, director: str, size: int) -> None:
    nodes = user.get("/v1/nodes?limit=1000")["items"]
    assert Counter(node["state"] for node in nodes) == {"up": size}
    for group in GROUPS:
        wanted = Counter(node["vm_cid"] for node in nodes if node["cloud"] == group)
        assert set(wanted.values()) == {1}
        assert wanted.keys() <= set(here.held(group, group, director)), f"{group} lacks VMs that the ledger has"
        for other in set(GROUPS) - {group}:
            assert not here.held(group, other, director), f"{other} in the datacenter of {group}"


@pytest.mark.timeout(900)
def test_a_short_storm_of_everything(tmp_path: Path, server: Server) -> None:
    storm(tmp_path, server, seed=7, nodes=6, patience_s=800)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_a_long_storm_of_everything(tmp_path: Path, server: Server, seed: int) -> None:
    storm(tmp_path, server, seed, nodes=80, patience_s=1100)
