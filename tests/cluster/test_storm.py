"""All that users do, while conductors, Directors, PostgreSQL and the way to it are struck; the seed decides everything.

No strike is a reason for a task to fail. After each action every node is up, its VM is in the datacenter of its own
group and in a server group with the policy of the manifest; after the delete the datacenters hold nothing. Where the
tests run as root, each group has a Unix user of its own, and the operating system refuses a call that went to a
conductor of another group.
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
from typing import Any

import pytest

from tests.cluster.fleet import LEASE_S, Cluster, Process, cluster, until
from tests.cluster.users import REFUSED, separated
from tests.peers.postgres import Server
from tests.peers.tcp_proxy import Proxy, proxy

GROUPS = ("east", "west")
_FEW, _ALL = 3, 10  # strikes; so many are one of each kind


class Striker(threading.Thread):
    """Strikes until it is stopped, and starts again what has ended, as a service manager does."""

    def __init__(self, here: Cluster, way: Proxy, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self._here, self._way, self._server = here, way, server
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._deck: list[Callable[[], object]] = []
        self.strikes: Counter[str] = Counter()

    def run(self) -> None:
        while not self._over.wait(self._chance.uniform(4.0, 8.0)):
            strike = self._draw()
            strike()
            self.strikes[strike.__name__.strip("_")] += 1
            self._mend()

    def _draw(self) -> Callable[[], object]:
        """Each kind comes before any comes again."""
        if not self._deck:
            self._deck = [*self._services, *self._directors, self._restart, *self._network]
            self._chance.shuffle(self._deck)
        return self._deck.pop()

    def stop(self) -> None:
        self._over.set()
        self.join(60)
        self._way.latency_s = 0.0
        self._mend()

    @property
    def _services(self) -> tuple[Callable[[], object], ...]:
        return self._kill, self._kill, self._pause, self._drain

    @property
    def _directors(self) -> tuple[Callable[[], object], ...]:
        return self._kill_director, self._pause_director

    @property
    def _network(self) -> tuple[Callable[[], object], ...]:
        return self._reset, self._mute, self._delay

    def _kill(self) -> None:
        self._victim().end()

    def _pause(self) -> None:
        self._stop_for_a_while(self._victim())

    def _drain(self) -> None:
        self._victim().end(signal.SIGTERM, 120)

    def _kill_director(self) -> None:
        self._chance.choice(self._here.directors).end()

    def _pause_director(self) -> None:
        self._stop_for_a_while(self._chance.choice(self._here.directors))

    def _stop_for_a_while(self, victim: Process) -> None:
        victim.send(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.5, 2.0) * LEASE_S)
        victim.send(signal.SIGCONT)

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
                assert not REFUSED.search(json.dumps(told)), told  # a question to a cloud went to another group
                lost = lost or error.code >= 500
            except (OSError, ValueError):
                lost = True  # the Director was killed
            director = 1 - director
            time.sleep(0.3)


def storm(server: Server, seed: int, nodes: int, strikes: int, patience_s: float) -> None:
    print(f"seed {seed}")
    with (
        separated((*GROUPS, "director")) as (folder, users),
        proxy(server.url) as way,
        cluster(folder, server, GROUPS, 2, directors=2, database=way.url(server.url), users=users) as here,
    ):
        user = User(here, time.monotonic() + patience_s)
        director = user.get("/v1/info")["director"]["uuid"]
        striker = Striker(here, way, server, seed)
        striker.start()
        config = here.config()
        while striker.strikes.total() < strikes:  # a quick machine is through before the first
            for size, policy, more in (
                (nodes, _SPREAD, {}),
                (nodes + 4, _SPREAD, {}),
                (nodes + 4, _SPREAD, {"recreate": True}),
                (nodes, "soft-affinity", {}),
            ):
                user.act("PUT", {"manifest": here.manifest(size, policy), "cloud_config": config, **more})
                _check(here, user, director, size, policy)
        user.act("DELETE")
        striker.stop()
        # What came late was deleted with the groups: now the clouds hold what the ledger says, to the last object.
        user.act("PUT", {"manifest": here.manifest(nodes), "cloud_config": config})
        _check(here, user, director, nodes, _SPREAD)
        here.check_clouds()
        user.act("DELETE")
        print(f"seed {seed}: {dict(striker.strikes)}")
        kinds = ("vm", "server_group")
        left = {(group, kind): here.held(group, group, director, kind) for group in GROUPS for kind in kinds}
        assert not any(left.values()), left
        assert here.refused_by_system() == []


_SPREAD = "soft-anti-affinity"


def _check(here: Cluster, user: User, director: str, size: int, policy: str) -> None:
    nodes = user.get("/v1/nodes?limit=1000")["items"]
    assert Counter(node["state"] for node in nodes) == {"up": size}
    for group in GROUPS:
        wanted = Counter(node["vm_cid"] for node in nodes if node["cloud"] == group)
        assert set(wanted.values()) == {1}
        assert wanted.keys() <= set(here.held(group, group, director)), f"{group} lacks VMs that the ledger has"
        for other in set(GROUPS) - {group}:
            assert not here.held(group, other, director), f"{other} in the datacenter of {group}"
        grouped = here.members(group, director)
        assert {cid: grouped.get(cid) for cid in wanted} == dict.fromkeys(wanted, policy), f"in {group}"


@pytest.mark.timeout(300)
def test_a_call_in_the_wrong_group_is_refused_by_the_operating_system(server: Server) -> None:
    with separated((*GROUPS, "director")) as (folder, users):
        if not users:
            pytest.skip("only root may run each group under a Unix user of its own")
        with cluster(folder, server, GROUPS, 1, users=users) as here:
            here.await_task(here.deploy(2))
            assert here.refused_by_system() == []
            users["west"].own(folder / "east")  # as if the work of east's cloud had gone to west
            with pytest.raises(urllib.error.HTTPError) as refused:
                here.deploy(4)
            assert REFUSED.search(refused.value.read().decode())
            here.send("POST", "/v1/looks", {})
            until(lambda: bool(here.refused_by_system()), "a step was not refused", 60)


@pytest.mark.timeout(900)
def test_a_short_storm_of_everything(server: Server) -> None:
    storm(server, seed=7, nodes=6, strikes=_FEW, patience_s=800)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_a_long_storm_of_everything(server: Server, seed: int) -> None:
    storm(server, seed, nodes=80, strikes=_ALL, patience_s=1100)
