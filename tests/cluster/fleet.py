"""A whole cluster of real processes: PostgreSQL, Directors without conductors, conductors in groups.

Every group has a sandbox datacenter of its own, in a folder that only its conductors work in: a step that runs in the
wrong group leaves its VM in the wrong datacenter. With a Unix user for each group it does not even get there: the
datacenter is named by its path, and only its group's user may open it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from coterie.client.api import VERSION_HEADER
from coterie.cpi.contract import Cpi, Runtime
from coterie.cpi.drivers.sandbox.properties import STATE_FILE
from coterie.cpi.load import open_cloud
from tests.cluster.users import REFUSED, User
from tests.peers.ports import free_port
from tests.peers.postgres import Server
from tests.telemetry.exposition import read

PROGRAM = [sys.executable, "-c", "from coterie.cli.main import main; main()"]
TOKEN = "a-token-for-tests"
LEASE_S = 2.0


@dataclass
class Process:
    """One service that may be killed, paused and started again."""

    name: str
    words: list[str]
    env: dict[str, str]
    log: Path
    popen: subprocess.Popen[bytes] | None = None
    port: int = 0  # of its page
    user: User | None = None  # None: that of the tests
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """If it does not run: the thread that kills and the one that restarts may both want it back."""
        with self._turn, self.log.open("ab") as out:
            if self.alive:
                return
            command = [*(self.user.before if self.user else ()), *PROGRAM, *self.words]
            self.popen = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    @property
    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def send(self, number: int) -> None:
        if self.popen is not None and self.alive:
            self.popen.send_signal(number)

    def end(self, number: int = signal.SIGKILL, timeout_s: float = 30.0) -> int:
        ending = self.popen  # another may be started in its place before we have waited for this one
        if ending is None:
            return 0
        if ending.poll() is None:
            ending.send_signal(number)
        return ending.wait(timeout_s)


@dataclass
class Cluster:
    folder: Path
    server: Server
    groups: tuple[str, ...]
    directors: list[Process] = field(default_factory=list)
    conductors: dict[str, Process] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)  # beside what every service gets
    database: str = ""  # the way to the database, if it is not the server itself
    users: Mapping[str, User] = field(default_factory=dict)  # by group, and of "director"; empty: all run as the tests
    _ports: list[int] = field(default_factory=list)

    # -- processes --

    def add_director(self) -> Process:
        port = free_port()
        name = f"director{len(self.directors)}"
        words = ["director", "--no-conductor", "--listen", f"127.0.0.1:{port}", "--database", self._database]
        state = self._own(self.folder / name, "director")
        process = Process(name, words, self._env(state), self.folder / f"{name}.log", user=self.users.get("director"))
        process.start()
        self.directors.append(process)
        self._ports.append(port)
        until(lambda: self._livez(port), f"{name} does not serve", 180)
        return process

    def add_conductor(self, group: str, name: str | None = None) -> Process:
        name = name or f"{group}-{len(self.conductors)}"
        words = ["conductor", "--group", group.upper(), "--drivers", "sandbox", "--name", name]
        words += ["--database", self._database, "--lease", str(LEASE_S), "--workers", "8"]
        port = free_port()
        words += ["--listen", f"127.0.0.1:{port}"]
        state = self._own(self.folder / group, group)
        process = Process(
            name, words, self._env(state), self.folder / f"{name}.log", port=port, user=self.users.get(group)
        )
        process.start()
        self.conductors[name] = process
        return process

    def _own(self, folder: Path, user: str) -> Path:
        """A folder that only this user may enter, if there is one."""
        if user in self.users:
            self.users[user].own(folder)
        return folder

    @property
    def _database(self) -> str:
        return self.database or self.server.url

    def await_conductors(self, count: int) -> None:
        until(lambda: len(self.get("/v1/conductors")["items"]) == count, f"there are not {count} conductors", 180)
        until(self._all_listen, "a conductor has no page", 180)

    def _all_listen(self) -> bool:
        return all(self._livez(one.port) for one in self.conductors.values() if one.alive)

    def stop(self) -> None:
        for process in [*self.conductors.values(), *self.directors]:
            process.send(signal.SIGCONT)
            with suppress(subprocess.TimeoutExpired):
                process.end()

    # -- asking --

    def get(self, path: str, director: int = 0) -> Any:
        return self.send("GET", path, director=director)

    def all(self, path: str) -> list[Any]:
        """Of a list, every page: a storm leaves thousands of objects that are gone."""
        found: list[Any] = []
        cursor = ""
        while True:
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit=1000{cursor}")
            found += page["items"]
            if page["next"] is None:
                return found
            cursor = f"&cursor={page['next']}"

    def send(
        self, method: str, path: str, body: Any = None, director: int = 0, more: dict[str, str] | None = None
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **VERSION_HEADER}
        headers.update(more or {})
        url = f"http://127.0.0.1:{self._ports[director]}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=90) as answer:
            return json.loads(answer.read())

    def metrics(self, director: int = 0) -> dict[str, float]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return read(page(self._ports[director], "/metrics", headers)[1])

    def cli(self, *words: str, director: int = 0) -> subprocess.Popen[str]:
        """A command as a user of this Director runs it."""
        env = self._env(self.folder / "user")
        env["COTERIE_DIRECTOR"] = f"http://127.0.0.1:{self._ports[director]}"
        return subprocess.Popen(
            [*PROGRAM, *words],
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def furnish(self) -> None:
        self.send("POST", "/v1/stemcells", {"name": "os", "version": "1", "cloud_properties": {"image": "x"}})

    def deploy(self, nodes: int, director: int = 0) -> int:
        body = {"manifest": self.manifest(nodes), "cloud_config": self.config()}
        return int(self.send("PUT", "/v1/deployments/dep", body, director)["task_id"])

    def task(self, task: int, director: int = 0) -> Any:
        return self.get(f"/v1/tasks/{task}", director)

    def await_task(self, task: int, timeout_s: float = 150, director: int = 0) -> Any:
        until(
            lambda: self.task(task, director)["state"] not in ("running", "cancelling"), "the task goes on", timeout_s
        )
        return self.task(task, director)

    def nodes(self) -> list[Any]:
        return self.all("/v1/nodes")

    def check_clouds(self) -> None:
        """Every node is up exactly once; each datacenter holds what the ledger says and nothing of another group."""
        uuid = self.get("/v1/info")["director"]["uuid"]
        nodes = self.nodes()
        assert Counter(node["state"] for node in nodes) == {"up": len(nodes)}
        for group in self.groups:
            wanted = Counter(node["vm_cid"] for node in nodes if node["cloud"] == group)
            for cloud in self.groups:
                held = Counter(self.held(group, cloud, uuid))
                assert held == (wanted if cloud == group else Counter()), f"{cloud} in the datacenter of {group}"
            for kind in ("vm", "image", "server_group"):
                assert Counter(self.held(group, group, uuid, kind)) == self.recorded(group, kind), kind

    def refused_by_system(self) -> list[Any]:
        """What the ledger and the logs show of calls that a Unix user had no right to: misrouted ones."""
        found: list[Any] = []
        with psycopg.connect(self.server.url) as connection:
            for table in ("events", "steps", "facts"):
                rows = connection.execute(
                    f"SELECT one::text FROM {table} AS one WHERE one::text ~ %s", [REFUSED.pattern]
                )
                found += rows.fetchall()
        for process in [*self.conductors.values(), *self.directors]:
            found += [line for line in process.log.read_text().splitlines() if REFUSED.search(line)]
        return found

    def recorded(self, cloud: str, kind: str) -> Counter[str]:
        """What the ledger says that a cloud holds; nothing may be in doubt any more."""
        where = "/v1/groups" if kind == "server_group" else f"/v1/objects?kind={kind}"
        rows = [one for one in self.all(where) if one["cloud"] == cloud and one["state"] != "gone"]
        assert {one["state"] for one in rows} <= {"live"}, rows
        return Counter(one["cid"] for one in rows)

    def held(self, group: str, cloud: str, director: str, kind: Any = "vm") -> list[str]:
        cpi = self._open(group, cloud, director)
        found, cursor = [], None
        while True:
            page = cpi.survey(kind, director, cursor)
            found += [one.cid for one in page.objects if one.mark]
            cursor = page.next
            if cursor is None:
                return found

    def members(self, cloud: str, director: str) -> dict[str, str | None]:
        """The VMs that the cloud has in server groups of ours, and the policies of these groups."""
        cpi = self._open(cloud, cloud, director)
        views = [cpi.inspect_server_group(cid) for cid in self.held(cloud, cloud, director, "server_group")]
        return {member.vm_cid: view.policy for view in views for member in view.members}

    def _open(self, group: str, cloud: str, director: str) -> Cpi:
        runtime = Runtime(director, None, self.folder / group)  # type: ignore[arg-type]  # reads only
        return open_cloud("sandbox", cloud, {"layout": LAYOUT}, runtime)

    # -- documents --

    def config(self) -> str:
        clouds = [
            {"name": g, "driver": "sandbox", "conductor_group": g, "properties": self._properties(g)}
            for g in self.groups
        ]
        azs = [{"name": f"z-{g}", "cloud": g, "cloud_properties": {"zone": "z1"}} for g in self.groups]
        subnets = [
            {"range": f"127.{20 + n}.0.0/16", "gateway": f"127.{20 + n}.0.1", "azs": [f"z-{g}"]}
            for n, g in enumerate(self.groups)
        ]
        small = {"name": "small", "cloud_properties": {"cpu": 1, "ram_mb": 256, "disk_mb": 1024}}
        net = {"name": "net", "subnets": subnets}
        return json.dumps({"clouds": clouds, "azs": azs, "vm_types": [small], "networks": [net]})

    def _properties(self, group: str) -> dict[str, Any]:
        own = {"state": str(self.folder / group / STATE_FILE)} if self.users else {}
        return {"layout": LAYOUT, "settle_s": 0.3, **own}

    def manifest(self, nodes: int, policy: str = "soft-anti-affinity") -> str:
        group = {
            "name": "n",
            "instances": nodes,
            "azs": [f"z-{g}" for g in self.groups],
            "vm_type": "small",
            "stemcell": "s",
            "networks": [{"name": "net"}],
            "placement": {"policy": policy},
            "update": {"canaries": 1, "max_in_flight": 40},
        }
        stemcell = {"alias": "s", "name": "os", "version": "1"}
        return json.dumps({"name": "dep", "stemcells": [stemcell], "instance_groups": [group]})

    def _env(self, state: Path) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("COTERIE_", "XDG_"))}
        mine = {"COTERIE_STATE": str(state), "COTERIE_TOKEN": TOKEN, "COTERIE_LOOK_INTERVAL": "0", "HOME": str(state)}
        datacenter = {"COTERIE_SANDBOX_STATE": str(state / STATE_FILE)}  # a site has its own
        return {**clean, **mine, **datacenter, **self.env}

    def _livez(self, port: int) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


LAYOUT = {
    "zones": [{"name": "z1", "racks": 2, "hosts_per_rack": 10, "cpu": 512, "ram_mb": 1 << 20, "disk_mb": 1 << 26}]
}


@contextmanager
def cluster(
    folder: Path,
    server: Server,
    groups: tuple[str, ...],
    per_group: int,
    directors: int = 1,
    database: str = "",
    users: Mapping[str, User] | None = None,
    **env: str,
) -> Iterator[Cluster]:
    made = Cluster(folder, server, groups, env=env, database=database, users=users or {})
    try:
        for _ in range(directors):
            made.add_director()
        for group in groups:
            for _ in range(per_group):
                made.add_conductor(group)
        made.await_conductors(per_group * len(groups))
        made.furnish()
        yield made
    finally:
        made.stop()


def until(holds: Callable[[], bool], otherwise: str, timeout_s: float) -> None:
    give_up = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > give_up:
            raise AssertionError(otherwise)
        time.sleep(0.05)


def page(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
