"""The bed of the OpenStack driver: a project of its own in the real control plane, reached through the fault proxy."""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.peers.openstack.contents import contents
from tests.peers.openstack.front import Front
from tests.peers.openstack.layout import PASSWORD, REGION
from tests.peers.openstack.plane import Tenant, admin, plane
from tests.peers.openstack.processes import Processes
from tests.peers.openstack.services import Services

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults
from coterie.cpi.contract import Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from peers.foreign import SmallBed
from peers.openstack_operator import OpenstackOperator
from peers.sandbox_bed import _ledger

# methods of the contract → the request that a fault bends
REQUESTS = {
    "create_vm": ("nova", "POST", "/v2.1/servers"),
    "delete_vm": ("nova", "DELETE", "/v2.1/servers/[^/]+"),
    "create_disk": ("cinder", "POST", "/v3/[^/]+/volumes"),
    "create_server_group": ("nova", "POST", "/v2.1/os-server-groups"),
}


COMPUTES = ("nova-compute-fake1", "nova-compute-fake2", "nova-compute-fake3", "nova-compute-fake4")
_LEASE_S = 6.0  # tests kill writers, and the next writer waits for the end of their lease
_spare: list[Tenant] = []


def _tenant() -> Tenant:
    """A project that is as good as new: making one takes longer than most tests."""
    return _spare.pop() if _spare else Tenant()


@atexit.register
def _close_spare() -> None:
    for one in _spare:
        one.close()


class OpenstackBed(SmallBed):
    driver = "openstack"
    operator: OpenstackOperator
    hosts = 3
    page_size = 5
    parallel = 8
    limits: Mapping[str, Reason] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.tenant = _tenant()
        self.front = Front(plane().url)
        self.faults = OpenstackFaults(self.front)
        self.operator = OpenstackOperator(self.tenant)
        self._coordinator = LedgerCoordinator(_ledger(), "kit", lease_s=_LEASE_S)
        self._numbers = itertools.count(10)

    def properties(self) -> dict[str, Any]:
        return {
            "auth_url": self.front.auth_url,
            "username": self.tenant.user,
            "password": PASSWORD,
            "project_name": self.tenant.project,
            "domain": "Default",
            "region": REGION,
            "poll_s": 0.1,
            "settle_s": 5,
            "metadata_url": f"{self.front.origin}/metadata",
            "page_size": self.page_size,
            **self.more,
        }

    def runtime(self, director_uuid: str | None = None) -> Runtime:
        parts = LedgerPartRecords(_ledger, "lab")
        return Runtime(director_uuid or self.director_uuid, self._coordinator, parts=parts)

    def open(self, director_uuid: str | None = None) -> Cpi:
        return OpenstackCpi("lab", self.properties(), self.runtime(director_uuid))

    def image(self) -> tuple[str, Json]:
        return str(self._image), {"disk_format": "raw", "container_format": "bare"}

    def az_properties(self, az: str) -> Json:
        return {"availability_zone": az}

    def vm_properties(self, az: str) -> Json:
        return {"instance_type": "m1.tiny", "availability_zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"instance_type": "m1.huge", "availability_zone": az}

    def address(self, az: str) -> str | None:
        number = next(self._numbers)
        return f"10.20.{number // 250}.{number % 250 + 1}"

    def networks(self, az: str, address: str | None) -> Networks:
        where = {"net_id": self.tenant.network}
        return {"default": {"type": "manual", "ip": address, "netmask": "255.255.0.0", "cloud_properties": where}}

    def floating_ip(self) -> str:
        """One that the operator allocated for the project."""
        order = {"floatingip": {"floating_network_id": self.tenant.outer_network}}
        made = self.tenant.call("POST", "neutron", "/floatingips", order)["floatingip"]
        return str(made["floating_ip_address"])

    def frozen(self, *names: str) -> AbstractContextManager[None]:
        """Daemons of the control plane that stand still meanwhile."""
        return Processes(plane()).frozen(*names)

    def more_schedulers(self, count: int) -> AbstractContextManager[None]:
        return Services(plane(), Processes(plane())).more_schedulers(count, admin().token)

    @contextmanager
    def inside(self, vm_cid: str) -> Iterator[bool]:
        self.front.metadata = {"uuid": vm_cid}
        yield True
        self.front.metadata = None

    def inventory(self) -> Inventory:
        return frozenset(contents(plane(), self.tenant.project_id, self.tenant.user_id))

    def close(self) -> None:
        self.front.close()
        if self.tenant.changed or self.inventory():
            self.tenant.close()
        else:
            _spare.append(self.tenant)


class OpenstackFaults(Faults):
    def __init__(self, front: Front) -> None:
        self._front = front
        self.expire = front.expire

    def fail(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "refuse", status=403)

    def throttle(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "refuse", status=429, headers={"Retry-After": "1"})

    def lose_answer(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "lose")

    def late(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "late", seconds=0.5)

    def clear(self) -> None:
        self._front.straighten()
