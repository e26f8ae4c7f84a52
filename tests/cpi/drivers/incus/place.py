"""A whole Coterie in one process whose cloud is the real Incus cluster, and perhaps others beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peers.incus_bed import CLUSTER, IncusBed
from tests.requests.site import Site, site

from coterie.cpi.contract import EVERY_SOURCE, Cpi, Runtime
from coterie.cpi.drivers.incus.driver import IncusCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ledger.store import Ledger

GUESTS = CLUSTER.guests


class Place(Site):
    patience_s = 150.0
    bed: IncusBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        coordinator = LedgerCoordinator(self.ledger, "test")
        runtime = Runtime(director or self.director.uuid, coordinator, credential_sources=(EVERY_SOURCE,))
        return IncusCpi(cloud, properties or self.bed.properties(), runtime)

    def hosts(self) -> list[str]:
        return sorted(self.bed.operator.locations(*(str(node.vm_cid) for node in self.nodes().values())))


def subnet(*azs: str) -> dict[str, Any]:
    """Of the guests' network, beside the addresses that the kit's tests take."""
    return {
        "range": f"{GUESTS}.0.0/16",
        "gateway": f"{GUESTS}.0.1",
        "azs": list(azs),
        "reserved": [f"{GUESTS}.0.2 - {GUESTS}.199.255", f"{GUESTS}.201.0 - {GUESTS}.255.254"],
        "cloud_properties": {"network": "net"},
    }


def config(bed: IncusBed, **more: Any) -> str:
    size = {key: value for key, value in bed.vm_properties(bed.azs[0]).items() if key != "cluster_group"}
    parts = {
        "clouds": [{"name": "lab", "driver": "incus", "properties": bed.properties()}],
        "azs": [{"name": az, "cloud": "lab", "cloud_properties": {"cluster_group": az}} for az in bed.azs],
        "vm_types": [{"name": "small", "cloud_properties": size}],
        "networks": [{"name": "net", "subnets": [subnet(*bed.azs)]}],
    }
    return json.dumps({**parts, **more})


@contextmanager
def placed(folder: Path, bed: IncusBed) -> Iterator[Place]:
    (folder / "site").mkdir()
    ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    before = bed.inventory()
    with site(ledger, folder / "site") as made:
        made.__class__ = Place
        assert isinstance(made, Place)
        made.bed = bed
        made.config = config(bed)
        image = folder / "site" / "stemcells" / "image"
        image.write_bytes(Path(bed.image()[0]).read_bytes())
        yield made
        if made.nodes():
            made.delete(delete_disks=True)
        for one in made.cpi().survey("image", made.director.uuid).objects:
            made.cpi().delete_stemcell(one.cid)
    ledger.close()
    assert bed.inventory() - before == set()
