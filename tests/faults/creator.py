"""One of many processes that make VMs in one server group at the same time, as drivers under many conductors do."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coterie.cpi.contract import Cpi, GroupMetadata, Mark, Runtime
from coterie.cpi.load import open_cloud
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import Ids
from coterie.ledger.store import Ledger
from tests.kill.order import Order
from tests.kill.scenario import CLOUD

DIRECTOR = "5eed5eed-0000-4000-8000-000000000000"
VM = {"cpu": 1, "ram_mb": 64, "disk_mb": 64, "zone": "z1"}


def run(order: Order) -> dict[str, Any]:
    """options: properties, intent (of the group, the same for all), image, vms, number (of this process)."""
    options = order.options
    ledger = Ledger.open(order.url)
    coordinator = LedgerCoordinator(ledger, f"creator-{options['number']}")
    cpi = open_cloud("sandbox", CLOUD, options["properties"], Runtime(DIRECTOR, coordinator))
    _wait_for(Path(order.folder) / "go")
    metadata = GroupMetadata({"name": "test", "uuid": DIRECTOR}, "dep", "workers", azs=("z1",))
    cid = cpi.create_server_group(metadata, mark=Mark(DIRECTOR, options["intent"]))
    with ThreadPoolExecutor(options["vms"]) as pool:
        made = list(pool.map(lambda _: _create(cpi, cid, options["image"]), range(options["vms"])))
    return {"left": [], "cid": cid, "vms": made}


def _create(cpi: Cpi, cid: str, image: str) -> str:
    networks = {"default": {"type": "dynamic", "cloud_properties": {}}}
    env = {"bosh": {"server_group_cid": cid}}
    return cpi.create_vm(Ids().uuid(), image, VM, networks, (), env, mark=Mark(DIRECTOR, Ids().intent())).cid


def _wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.005)
