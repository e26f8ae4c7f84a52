"""From a bare Debian to a running control plane. What is installed, initialised or running already is kept."""

from __future__ import annotations

import fcntl
import json
import shutil
import time

from tests.peers.openstack.broker import start_broker
from tests.peers.openstack.configuration import configure, make_folders
from tests.peers.openstack.database import Database
from tests.peers.openstack.down import bring_down
from tests.peers.openstack.files import write
from tests.peers.openstack.layout import Layout
from tests.peers.openstack.packages import install
from tests.peers.openstack.processes import Processes
from tests.peers.openstack.progress import BEGAN, TIMINGS, die, say, timed
from tests.peers.openstack.reach import listening
from tests.peers.openstack.seeds import seed_accounts, seed_content
from tests.peers.openstack.services import Services, start_services


def bring_up(fresh: bool = False, install_only: bool = False) -> None:
    layout = Layout()
    if fresh and layout.state.exists():
        bring_down(layout)
        shutil.rmtree(layout.state)
    complaint = layout.complaint()
    if complaint:
        die(complaint)
    make_folders(layout)
    with open(layout.path("lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            die(f"another process is bringing up {layout.state}")
        _bring_up(layout, install_only)


def _bring_up(layout: Layout, install_only: bool) -> None:
    say(f"folder {layout.state}, ports from {layout.base}, hosts {' '.join(layout.hosts)}")
    with timed("packages"):
        versions = install(layout)
    if install_only:
        return
    configure(layout)
    processes = Processes(layout)
    start_broker(layout, processes)
    database = Database(layout, processes)
    database.make_schemas(versions)
    services = Services(layout, processes)
    with timed("database, broker"):
        database.start()
        services.start_identity()
        processes.await_("rabbitmq", lambda: listening(layout.port["amqp"]), ["rabbitmq"])
    token = start_services(layout, processes, services, seed_accounts)
    with timed("flavours, zones, image, network"):
        seed_content(layout, token)
    _report(layout, processes)


def _report(layout: Layout, processes: Processes) -> None:
    for name in processes.names():
        if not processes.leader(name):
            die(f"{name} is not running; see {layout.path('log', name)}.*")
    TIMINGS["total"] = round(time.time() - BEGAN, 1)
    facts = {"timings": TIMINGS, "memory_mib": processes.memory_mib()}
    write(layout.path("timings.json"), json.dumps(facts) + "\n")
    say(f"ready after {TIMINGS['total']} s, {facts['memory_mib']} MiB: {layout.path('clouds.yaml')}")
