"""A whole Coterie in one process whose cloud is the simulated vCenter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from peers.vsphere_bed import CLUSTERS
from peers.vsphere_image import write_image
from peers.vsphere_operator import VsphereOperator
from pyVmomi import vim
from tests.peers.vcenter import Vcenter
from tests.requests.site import Site, site

from coterie.cpi.contract import Cpi, Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ledger.store import Ledger
from coterie.ledger.tables import events, server_groups
from coterie.requests import looks

CONFIG = """
clouds:
- name: lab
  driver: vsphere
  properties:
    url: URL
    user: root
    password: secret
    datacenter: DC0
    zones: {z1: {cluster: DC0_C0}, z2: {cluster: DC0_C1}}
    datastores: [LocalDS_0]
    network: VM Network
    settle_s: 1
    agent_settings: guestinfo
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: lab, cloud_properties: {zone: z2}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram: 512}}
networks:
- name: net
  subnets:
  - {range: 127.20.0.0/16, gateway: 127.20.0.1, azs: [z1]}
  - {range: 127.21.0.0/16, gateway: 127.21.0.1, azs: [z2]}
"""


class Place(Site):
    """A site whose cloud is the vCenter."""

    operator: VsphereOperator
    server: Vcenter

    def vcenter(self, director: str | None = None) -> VsphereCpi:
        properties: dict[str, Any] = {
            "url": self.server.url,
            "user": "root",
            "password": "secret",
            "datacenter": "DC0",
            "zones": {zone: {"cluster": cluster} for zone, cluster in CLUSTERS.items()},
        }
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return VsphereCpi("lab", properties, runtime)

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        return self.vcenter(director)

    def drs(self, az: str = "z1") -> dict[str, int]:
        groups = self.operator.get(self.operator.cluster(az), "configurationEx").group or ()
        return {one.name: len(one.vm) for one in groups if isinstance(one, vim.cluster.VmGroup)}

    def vms(self) -> dict[str, str | None]:
        return {name: node.vm_cid for name, node in self.nodes().items()}

    def group(self) -> Any:
        query = sa.select(server_groups).where(server_groups.c.state != "gone")
        with self.ledger.read() as tx:
            return tx.execute(query).one()

    def look(self) -> None:
        task = looks.look(self.ledger)
        assert task is not None
        self.wait(task)

    def event_bodies(self, kind: str) -> list[str]:
        with self.ledger.read() as tx:
            return list(tx.execute(sa.select(events.c.body).where(events.c.kind == kind)).scalars())


@contextmanager
def placed(folder: Path, server: Vcenter, database: str | None = None) -> Iterator[Place]:
    """At the end everything is deleted, and nothing may be left."""
    ledger = Ledger.open(database or f"sqlite:///{folder / 'ledger.db'}")
    before = server.inventory()
    with site(ledger, folder) as made:
        made.__class__ = Place
        assert isinstance(made, Place)
        made.server = server
        made.config = CONFIG.replace("URL", server.url)
        made.operator = VsphereOperator(server, CLUSTERS)
        write_image(folder / "stemcells" / "image")
        yield made
        if made.nodes():
            made.delete()
        for image in made.held("image"):
            made.vcenter().delete_stemcell(image.cid)
    ledger.close()
    left = {one for one in server.inventory() - before if not one[1].endswith(" coterie")}
    assert left == set()
