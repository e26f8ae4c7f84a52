"""The services, in the order that their dependences allow, and what must be true before they are ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers.openstack import rest
from tests.peers.openstack.database import entry_point
from tests.peers.openstack.files import write_ini
from tests.peers.openstack.layout import NAMES, PYTHON, Layout
from tests.peers.openstack.processes import STAND_INS, Processes
from tests.peers.openstack.progress import BEGAN, timed
from tests.peers.openstack.reach import answers


class Services:
    def __init__(self, layout: Layout, processes: Processes) -> None:
        self._layout = layout
        self._processes = processes
        self.names = [name for name in NAMES if name != "cinder" or layout.with_cinder]

    def start_identity(self) -> None:
        """Keystone and Placement need no message broker."""
        self._processes.spawn("keystone", self._uwsgi("keystone"))
        self._processes.spawn("placement", self._uwsgi("placement"))

    def start_network(self) -> None:
        config = ("--config-file", self._layout.path("etc/neutron.conf"))
        self._spawn("neutron-server", "neutron.cmd.eventlet.server:main", *config)

    def start_rest(self) -> None:
        """They ask Keystone and Placement when they start. The scheduler maps the hosts that it finds: last."""
        path = self._layout.path
        self._nova("conductor")
        for host in self._layout.hosts:
            self._nova(f"compute-{host}", "--config-file", path(f"etc/nova-compute-{host}.conf"))
        nova = ("--config-file", path("etc/nova.conf"), "--log-file", path("log/nova-api.log"))
        self._spawn("nova-api", "nova.cmd.api_os_compute:main", *nova)
        agent = [
            str(STAND_INS / "oslab_agent.py"),
            self._layout.amqp,
            self._layout.socket,
            ",".join(self._layout.hosts),
        ]
        self._processes.spawn("neutron-agent", [PYTHON, *agent])
        self._spawn("glance-api", "glance.cmd.api:main", "--config-file", path("etc/glance/glance-api.conf"))
        if self._layout.with_cinder:
            self._cinder()
        self._nova("scheduler")

    def await_answer(self, name: str, path: str = "/") -> None:
        watch = [one for one in self._processes.names() if one.split("-")[0] == name]
        self._processes.await_(name, lambda: answers(self._layout.url[name] + path), watch)

    def await_hosts(self, token: str) -> None:
        """Reported by themselves, after this run began where it started anything."""
        url, hosts = self._layout.url, len(self._layout.hosts)
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BEGAN)) if self._processes.started_any else ""
        nova, placement = f"{url['nova']}/v2.1", f"{url['placement']}/resource_providers?resources=VCPU:1"
        version = {"OpenStack-API-Version": "placement 1.4"}

        def ask(what: str, **more: Any) -> Any:
            return rest.call("GET", what, token=token, **more)

        def fresh() -> bool:
            rows = ask(f"{nova}/os-services")["services"]
            return len([one for one in rows if one["state"] == "up" and (one["updated_at"] or "") > since]) >= 2 + hosts

        def alive() -> bool:
            return len([one for one in ask(f"{url['neutron']}/v2.0/agents")["agents"] if one["alive"]]) >= hosts

        def inventories() -> bool:
            return len(ask(placement, headers=version)["resource_providers"]) >= hosts

        watch = [name for name in self._processes.names() if name.startswith("nova")]
        self._processes.await_("nova services", fresh, watch)
        self._processes.await_("hypervisors", lambda: len(ask(f"{nova}/os-hypervisors")["hypervisors"]) >= hosts)
        self._processes.await_("placement inventories", inventories)
        self._processes.await_("neutron agents", alive)
        if self._layout.with_cinder:
            self._processes.await_("cinder services", lambda: self._backends(token) >= 2)

    @contextmanager
    def more_schedulers(self, count: int, token: str) -> Iterator[None]:
        """So many beside the first, as with several controllers: each knows at once only what it placed itself."""
        names = [f"scheduler-{number + 2}" for number in range(count)]
        url = f"{self._layout.url['nova']}/v2.1/os-services?binary=nova-scheduler"
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())

        def reported() -> bool:
            rows = rest.call("GET", url, token=token)["services"]
            return len([one for one in rows if one["host"] in names and (one["updated_at"] or "") > since]) == count

        try:
            for name in names:
                file = self._layout.path(f"etc/nova-{name}.conf")
                write_ini(file, {"DEFAULT": {"host": name}})
                self._nova(name, "--config-file", file)
            self._processes.await_("schedulers", reported, [f"nova-{name}" for name in names])
            yield
        finally:
            self._processes.stop([f"nova-{name}" for name in names], 30)

    def _backends(self, token: str) -> int:
        projects = rest.call("GET", f"{self._layout.url['keystone']}/v3/projects?name=admin", token=token)
        url = f"{self._layout.url['cinder']}/v3/{projects['projects'][0]['id']}/os-services"
        return len([one for one in rest.call("GET", url, token=token)["services"] if one["state"] == "up"])

    def _nova(self, name: str, *more: str) -> None:
        kind = name.split("-")[0]
        words = ["--config-file", self._layout.path("etc/nova.conf"), *more]
        log = ["--log-file", self._layout.path(f"log/nova-{name}.log")]
        self._processes.spawn(f"nova-{name}", entry_point(f"nova-{kind}", f"nova.cmd.{kind}:main", *words, *log))

    def _cinder(self) -> None:
        config = self._layout.path("etc/cinder.conf")
        for name in ("api", "scheduler", "volume"):
            words = ["--config-file", config, "--log-file", self._layout.path(f"log/cinder-{name}.log")]
            self._spawn(f"cinder-{name}", f"cinder.cmd.{name}:main", *words)

    def _spawn(self, name: str, target: str, *words: str) -> None:
        self._processes.spawn(name, entry_point(name, target, *words))

    def _uwsgi(self, name: str) -> list[str]:
        return [
            *(
                "uwsgi",
                "--plugin",
                "python3",
                "--master",
                "--die-on-term",
                "--need-app",
                "--processes",
                "1",
                "--threads",
                "16",
                "--enable-threads",
            ),
            *("--lazy-apps", "--http-socket", f"127.0.0.1:{self._layout.port[name]}", "--buffer-size", "65535"),
            *("--listen", "100", "--thunder-lock", "--procname-prefix-spaced", name, "--disable-logging"),
            # it closes after each answer: unless it says so, clients reuse a dead connection
            *("--pythonpath", str(STAND_INS), "--add-header", "Connection: close", "--module", f"oslab_{name}_wsgi"),
        ]


def start_services(layout: Layout, processes: Processes, services: Services, seed: Any) -> str:
    """All of them; `seed` fills Keystone as soon as it answers. The administrator's token."""
    with timed("keystone, placement"):
        services.start_network()
        services.await_answer("keystone", "/v3")
        token = rest.login(layout.url["keystone"])
        seed(layout, token)
        services.await_answer("placement")
    with timed("glance, neutron, nova, cinder"):
        services.start_rest()
        for name in services.names:
            services.await_answer(name, "/v3" if name == "keystone" else "/")
    with timed("hosts, agents, backends"):
        services.await_hosts(token)
    return token
