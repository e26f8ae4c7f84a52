"""A Director with something on every page of the console: served on a port of this machine, with a conductor and the
simulated datacenter behind it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from coterie.cleanup import start as cleanup
from coterie.cleanup.options import Options
from coterie.director.access.bootstrap import read_issuer
from coterie.director.access.tokens import create
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.director.services.clouds import set_cloud_config
from coterie.requests import start
from coterie.requests.request import PlanRequest
from coterie.settings import load
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import Site, site

CONFIG = """\
clouds:
- name: lab
  driver: sandbox
  properties:
    settle_s: 0.1
    quotas: {instances: 100}
    layout:
      zones:
      - {name: z1, racks: 2, hosts_per_rack: 3, cpu: 32, ram_mb: 131072, disk_mb: 4194304}
      - {name: z2, racks: 2, hosts_per_rack: 3, cpu: 32, ram_mb: 131072, disk_mb: 4194304}
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: lab, cloud_properties: {zone: z2}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}
disk_types:
- {name: data, disk_size: 64}
networks:
- name: net
  subnets:
  - {range: 127.20.0.0/16, gateway: 127.20.0.1, azs: [z1]}
  - {range: 127.21.0.0/16, gateway: 127.21.0.1, azs: [z2]}
"""
MANIFEST = """\
name: kafka
stemcells:
- {alias: default, name: os, version: "1"}
instance_groups:
- name: controller
  instances: 3
  azs: [z1, z2]
  vm_type: small
  stemcell: default
  networks: [{name: net}]
  placement: {policy: anti-affinity}
- name: broker
  instances: 4
  azs: [z1, z2]
  vm_type: small
  stemcell: default
  persistent_disk_type: data
  networks: [{name: net}]
  placement: {policy: soft-anti-affinity, server_group: data}
update: {canaries: 1, max_in_flight: 4, serial: false, update_watch_s: 5, canary_watch_s: 5}
"""


def unhealthy(text: str) -> str:
    """The same, with controllers that never become healthy."""
    placed = "  placement: {policy: anti-affinity}\n"
    return text.replace(placed, f"{placed}  health: {{kind: tcp, port: 9}}\n", 1)


@dataclass
class World:
    context: AppContext
    site: Site
    url: str

    def token(self, role: str, *teams: str) -> str:
        with self.context.ledger.write() as tx:
            return create(tx, f"{role}{''.join(teams)}", role, teams or None, "test").text

    def deploy(self, text: str = MANIFEST, name: str = "kafka", expect: str = "done") -> int:
        task = start.deploy(self.context.ledger, PlanRequest(deployment=name, manifest=text), None, "test")
        self.site.wait(task, expect)
        return task

    def survey(self) -> int:
        number, task = cleanup.survey(self.context.ledger, Options.of_wire({"grace_s": 0.0}), "test")
        self.site.wait(task)
        return number


@contextmanager
def world(folder: Path, *, config: str = CONFIG, **settings: str) -> Iterator[World]:
    state_folder = StateFolder(folder)
    state_folder.prepare()
    ledger = sqlite_ledger(state_folder.ledger)
    values = load({"state": str(folder)}, {"HOME": str(folder), **settings})
    with site(ledger, folder, opens_sealed=True) as here:
        context = AppContext(ledger, here.director, values, state_folder, guarded=True)
        context.oidc = read_issuer(values)
        if config:
            set_cloud_config(context, config, "cloud-config")
        with serve(context) as url:
            yield World(context, here, url)
    ledger.close()


@contextmanager
def serve(context: AppContext) -> Iterator[str]:
    """On a port of this machine, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(build(context), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        context.ending = True
        server.should_exit = True
        thread.join(20)
