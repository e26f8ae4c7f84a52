"""The bed of the vSphere driver: the simulator behind its front; operator and inventory look past the driver."""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.peers.vcenter import Vcenter, vcenter

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults
from coterie.cpi.contract import Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from peers.foreign import SmallBed
from peers.sandbox_bed import _ledger
from peers.vsphere_image import write_image
from peers.vsphere_operator import VsphereOperator

CLUSTERS = {"z1": "DC0_C0", "z2": "DC0_C1"}
# methods of the contract → the method of the vCenter that a fault bends
METHODS = {
    "create_vm": "CloneVM_Task",
    "delete_vm": "Destroy_Task",
    "create_disk": "CreateVirtualDisk_Task",
    "create_server_group": "Rename_Task",
}
_API = "vSphere Web Services API"


@cache
def shared() -> Vcenter:
    """One for the whole run: the kit leaves nothing behind, and checks that."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(vcenter())


class VsphereBed(SmallBed):
    driver = "vsphere"
    operator: VsphereOperator
    hosts = 3
    parallel = 6
    limits: Mapping[str, Reason] = {
        "addresses": Reason("vCenter gives no addresses: the agent sets them inside the VM", _API),
        "page_size": Reason("the driver follows the property collector's pages itself", f"{_API}: PropertyCollector"),
        "security_groups": Reason("vCenter has none; they belong to NSX, another product", _API),
    }

    def __init__(self, folder: Path, server: Vcenter | None = None) -> None:
        super().__init__(folder)
        self.server = server or shared()
        self.reports: list[tuple[str, str]] = []
        self._image = write_image(folder / "image")
        self._coordinator = LedgerCoordinator(_ledger(), "kit")
        self._numbers = itertools.count()
        self.faults = VsphereFaults(self.server)
        self.operator = VsphereOperator(self.server, CLUSTERS)

    def properties(self) -> dict[str, Any]:
        return {
            "url": self.server.url,
            "user": "root",
            "password": "secret",
            "datacenter": "DC0",
            "zones": {zone: {"cluster": cluster} for zone, cluster in CLUSTERS.items()},
            "datastores": ["LocalDS_0"],
            "network": "VM Network",
            "settle_s": 5,
            **self.more,
        }

    def runtime(self, director_uuid: str | None = None) -> Runtime:
        parts = LedgerPartRecords(_ledger, "lab")

        def report(kind: str, body: str) -> None:
            self.reports.append((kind, body))

        return Runtime(director_uuid or self.director_uuid, self._coordinator, parts=parts, report=report)

    def open(self, director_uuid: str | None = None) -> Cpi:
        return VsphereCpi("lab", self.properties(), self.runtime(director_uuid))

    def vm_properties(self, az: str) -> Json:
        return {"cpu": 1, "ram": 512, "disk": 1024, "zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"cpu": 1000, "ram": 512, "disk": 1024, "zone": az}

    def address(self, az: str) -> str | None:
        return None

    def networks(self, az: str, address: str | None) -> Networks:
        ip = f"127.20.0.{next(self._numbers) % 250 + 1}"
        return {"default": {"type": "manual", "ip": address or ip, "netmask": "255.0.0.0", "cloud_properties": {}}}

    def inventory(self) -> Inventory:
        """Without the drawers that VMs and templates lie in: they come and go with what is in them."""
        return frozenset(one for one in self.server.inventory() if not self._is_drawer(one))

    def _is_drawer(self, one: tuple[str, str]) -> bool:
        name = one[1].rpartition(" ")[2]
        return one[0] == "folder" and (name in ("coterie", "vms", "stemcells", "groups") or name == self.director_uuid)

    def close(self) -> None:
        self.server.straighten()
        self.operator.close()


@contextmanager
def scrubbing(folder: Path, scrub: bool) -> Iterator[VsphereBed]:
    """A bed on a vCenter of its own, which drops destroyed VMs from groups by itself or does not."""
    with vcenter(*(["-scrub"] if scrub else [])) as server:
        bed = VsphereBed(folder, server)
        yield bed
        bed.close()


class VsphereFaults(Faults):
    def __init__(self, server: Vcenter) -> None:
        self._server = server
        self.expire = server.expire

    def fail(self, method: str) -> None:
        self._server.bend(METHODS[method], "fault", fault="SystemError")

    def throttle(self, method: str) -> None:
        self._server.bend(METHODS[method], "status", status=429)

    def lose_answer(self, method: str) -> None:
        self._server.bend(METHODS[method], "drop_after")

    def late(self, method: str) -> None:
        self._server.bend(METHODS[method], "late", ms=300)

    def clear(self) -> None:
        self._server.straighten()
