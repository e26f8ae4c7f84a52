"""The bed of the Incus driver: a project of its own in the real cluster, reached through a proxy that bends answers."""

from __future__ import annotations

import atexit
import itertools
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.peers.incus import own_number
from tests.peers.incus.cluster import MEMBERS, NETWORK, POOL, Cluster
from tests.peers.incus.front import Front
from tests.peers.incus.packages import kernel
from tests.peers.lxd.placement_groups import PlacementGroups

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.hands import Faults
from coterie.cpi.contract import EVERY_SOURCE, Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.incus import machines
from coterie.cpi.drivers.incus.driver import IncusCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.stemcell.tiny.build import build
from peers.foreign import SmallBed
from peers.incus_operator import IncusOperator
from peers.sandbox_bed import _ledger

CLUSTER = Cluster(own_number())
IS_LXD = CLUSTER.daemon.data == "lxd"
PLACEMENT_GROUPS = PlacementGroups()  # of LXD, whose build here has none yet
# methods of the contract → the request that a fault bends
REQUESTS = {
    "create_vm": ("POST", "/1.0/instances"),
    "delete_vm": ("DELETE", "/1.0/instances/[^/]+"),
    "create_disk": ("POST", "/1.0/storage-pools/[^/]+/volumes/custom"),
    "create_server_group": ("POST", "/1.0/profiles"),
}
MEMORY_LIMITS = not Path("/sys/fs/cgroup/memory").exists()  # liblxc fails to set them in cgroups of version 1
_numbers = itertools.count(10)
_OF_LXD = {
    "security_groups": Reason(
        "LXD has no ACLs of NICs on bridges", "LXD documentation, Type: nic, bridged: it has no option security.acls"
    )
}
_LISTS = {
    "no pages": Reason("Incus answers whole lists", "Incus REST API, /1.0/instances: it has no paging parameters")
}


@cache
def stemcell(*, for_machines: bool = False) -> str:
    path = Path(tempfile.mkdtemp(prefix="coterie-tiny-")) / "tiny.tgz"
    atexit.register(lambda: path.unlink(missing_ok=True))
    build(path, Path("/bin/busybox"), "x86_64", kernel() if for_machines else None)
    return str(path)


class IncusBed(SmallBed):
    driver = "incus"
    azs = ("z1", "z2")
    hosts = 2
    parallel = 8
    operator: IncusOperator
    limits: Mapping[str, Reason] = {
        "expire": Reason(
            "a socket and a certificate have no session", "Incus documentation, Remote API authentication"
        ),
        "page_size": _LISTS["no pages"],
        **(_OF_LXD if IS_LXD else {}),
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.director_uuid = str(uuid.uuid4())
        self.project = "default"  # ACLs of bridges work in the project of the bridge only
        more = {"around": PLACEMENT_GROUPS.around} if IS_LXD else {}
        self.front = Front(CLUSTER.socket(), folder / "front.socket", **more)
        self.faults = IncusFaults(self.front)
        self.operator = IncusOperator(CLUSTER, self.project)
        self._coordinator = LedgerCoordinator(_ledger(), "kit", lease_s=6.0)
        self._acls_before = {cid for kind, cid in self._acls()}

    def properties(self) -> dict[str, Any]:
        return {
            "socket": str(self.front.path),
            "project": self.project,
            "storage_pool": POOL,
            "default_network": NETWORK,
            "memory_limits": MEMORY_LIMITS,
            "settle_s": 3,
            "state_timeout": 60,
            "retries": 2,
            **self.more,
        }

    def runtime(self, director_uuid: str | None = None) -> Runtime:
        parts = LedgerPartRecords(_ledger, "lab")
        director = director_uuid or self.director_uuid
        return Runtime(director, self._coordinator, parts=parts, credential_sources=(EVERY_SOURCE,))

    def open(self, director_uuid: str | None = None) -> Cpi:
        return IncusCpi("lab", self.properties(), self.runtime(director_uuid))

    def image(self) -> tuple[str, Json]:
        return stemcell(), {}

    def az_properties(self, az: str) -> Json:
        return {"cluster_group": az}

    def vm_properties(self, az: str) -> Json:
        return {"cpu": 1, "memory": 64, "cluster_group": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"cpu": 100000, "memory": 64, "cluster_group": az}

    def disk_properties(self, az: str) -> Json:
        return {}

    def address(self, az: str) -> str | None:
        number = next(_numbers)
        return f"{CLUSTER.guests}.{number // 250 % 250}.{number % 250 + 2}"

    def networks(self, az: str, address: str | None) -> Networks:
        where = {"network": NETWORK}
        return {"default": {"type": "manual", "ip": address, "netmask": "255.255.0.0", "cloud_properties": where}}

    @contextmanager
    def inside(self, vm_cid: str) -> Iterator[bool]:
        """Incus's socket in a guest, answered as a guest of that name is."""
        with pytest.MonkeyPatch.context() as patch, self.front.guest(vm_cid) as path:
            patch.setattr(machines, "GUEST_SOCKETS", (str(path),))
            yield True

    def inventory(self) -> Inventory:
        """Of the project, past the driver; ACLs are the whole cluster's."""
        acls = {one for one in self._acls() if one[1] not in self._acls_before}
        own = {("placement_group", name) for name in PLACEMENT_GROUPS.names(self.project)}
        return frozenset({*self.operator.contents(), *acls, *own})

    def close(self) -> None:
        self.front.close()

    def _acls(self) -> list[tuple[str, str]]:
        return [("security_group", row["name"]) for row in CLUSTER.call("GET", "/1.0/network-acls?recursion=1")]


class IncusMachineBed(IncusBed):
    """The same with virtual machines, on the members that run them."""

    azs = ("z1",)
    parallel = 4

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.more = {"default_type": "virtual-machine"}
        require_machines()

    def image(self) -> tuple[str, Json]:
        return stemcell(for_machines=True), {}

    def vm_properties(self, az: str) -> Json:
        config = {"security.secureboot": "false"}
        return {"cpu": 1, "memory": 256, "root_disk": 512, "cluster_group": az, "config": config}


def require_machines() -> None:
    if "qemu" not in CLUSTER.call("GET", "/1.0")["environment"]["driver"]:
        pytest.skip("the members run no virtual machines: `python -m tests.peers.incus install` brings QEMU")


class IncusFaults(Faults):
    def __init__(self, front: Front) -> None:
        self._front = front

    def fail(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "refuse", 403)

    def throttle(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "refuse", 429)

    def lose_answer(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "lose")

    def late(self, method: str) -> None:
        self._front.bend(*REQUESTS[method], "late")

    def clear(self) -> None:
        self._front.straighten()


__all__ = ["CLUSTER", "MEMBERS", "IncusBed"]
