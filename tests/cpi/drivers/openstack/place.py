"""A whole Coterie in one process whose clouds are projects of the real OpenStack, and perhaps the sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from peers.openstack_bed import OpenstackBed
from tests.requests.site import Site, site

from coterie.cpi.contract import Cpi, Runtime
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ledger.store import Ledger
from coterie.ledger.tables import events

RANGE = "10.20.0.0/16"
RESERVED = ["10.20.128.0 - 10.20.255.255"]  # what Neutron gives away by itself


class Place(Site):
    patience_s = 280.0
    bed: OpenstackBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return OpenstackCpi(cloud, properties or self.bed.properties(), runtime)

    def vms(self) -> dict[str, str]:
        return {name: str(node.vm_cid) for name, node in self.nodes().items()}

    def spread(self) -> list[int]:
        """How many VMs each host that has any has, fullest first."""
        hosts = list(self.bed.operator.hosts().values())
        return sorted((hosts.count(one) for one in set(hosts)), reverse=True)

    def list_events(self, kind: str) -> list[str]:
        with self.ledger.read() as tx:
            return [str(body) for body in tx.execute(sa.select(events.c.body).where(events.c.kind == kind)).scalars()]


def openstack_cloud(name: str, bed: OpenstackBed) -> dict[str, Any]:
    return {"name": name, "driver": "openstack", "properties": bed.properties()}


def openstack_subnet(bed: OpenstackBed, *azs: str) -> dict[str, Any]:
    where = {"net_id": bed.tenant.network}
    return {"range": RANGE, "gateway": "10.20.0.1", "reserved": RESERVED, "azs": list(azs), "cloud_properties": where}


def config(bed: OpenstackBed, **more: Any) -> str:
    """z1 and z2 of one project; `more` replaces parts."""
    azs = [{"name": az, "cloud": "lab", "cloud_properties": bed.az_properties(az)} for az in bed.azs]
    parts: Mapping[str, Any] = {
        "clouds": [openstack_cloud("lab", bed)],
        "azs": azs,
        "vm_types": [{"name": "small", "cloud_properties": {"instance_type": "m1.tiny"}}],
        "networks": [{"name": "net", "subnets": [openstack_subnet(bed, *bed.azs)]}],
    }
    return json.dumps({**parts, **more})


@contextmanager
def placed(folder: Path, bed: OpenstackBed) -> Iterator[Place]:
    """At the end everything is deleted, disks too, and nothing may be left in the project."""
    (folder / "site").mkdir()
    ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    before = bed.inventory()
    with site(ledger, folder / "site") as made:
        made.__class__ = Place
        assert isinstance(made, Place)
        made.bed = bed
        made.config = config(bed)
        yield made
        if made.nodes():
            made.delete(delete_disks=True)
    clear_images(made, bed)
    ledger.close()
    assert bed.inventory() - before == set()


def clear_images(place: Place, bed: OpenstackBed) -> None:
    cpi = place.cpi(properties=bed.properties())
    for image in cpi.survey("image", place.director.uuid).objects:
        cpi.delete_stemcell(image.cid)
