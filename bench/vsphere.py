"""vSphere on the simulated vCenter: a survey of 5,000 VMs against reading them one by one, and joins of a DRS group.

Prints ratios; asserts nothing. Usage: PYTHONPATH=.:tests/cpi bench/vsphere.py [VMS [OBJECT_BY_OBJECT]]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from peers.vsphere_operator import VsphereOperator
from tests.peers.vcenter import Vcenter, vcenter

from coterie.cpi.contract import GroupMetadata, Mark, Runtime
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.cpi.drivers.vsphere.inventory import OBJECT
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import Ids
from coterie.ledger.store import Ledger

DIRECTOR = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"
RECONFIGURE = "ReconfigureComputeResource_Task"
PARALLEL = (1, 8, 50)


def main() -> None:
    words = [int(word) for word in sys.argv[1:]]
    vms, single = (words + [5_000, 500][len(words) :])[:2]
    survey(vms, single)
    joins()


def survey(vms: int, single: int) -> None:
    """All VMs of the vCenter, as the driver lists a folder; then some of them one at a time."""
    with vcenter("-autostart=false", vm=-(-vms // 3)) as server:  # so many in each of the model's three places
        cpi = driver(server)
        folder = cpi.inventory.datacenter.vm_folder
        server.forget_calls()
        cpu, wall, rows = measured(lambda: cpi.client.list_below(folder, sdk.vim.VirtualMachine, *OBJECT))
        calls = len(server.calls())
        each, slow, _ = measured(lambda: [cpi.client.read(row.ref, *OBJECT) for row in rows[:single]])
        print(f"survey of {len(rows)} VMs: {calls} calls, {cpu:.2f} s CPU, {wall:.2f} s")
        factor = len(rows) / max(single, 1)
        whole = f"{each * factor:.2f} s CPU, {slow * factor:.2f} s"
        print(f"object by object (measured on {single}): {len(rows)} calls, {whole}")
        print(f"ratio: {each * factor / cpu:.1f} times the CPU, {len(rows) / calls:.0f} times the calls\n")


def joins() -> None:
    print(f"{'parallel':>8} {'joins':>6} {'joins/s':>8} {'reconfigures/join':>18}")
    for parallel in PARALLEL:
        with tempfile.TemporaryDirectory() as folder, vcenter() as server:
            count, wall = joined(server, f"sqlite:///{folder}/ledger.db", parallel)
            writes = server.methods().count(RECONFIGURE)
            print(f"{parallel:>8} {count:>6} {count / wall:>8.1f} {writes / count:>18.2f}")


def joined(server: Vcenter, ledger: str, parallel: int) -> tuple[int, float]:
    """So many VMs join one new group, so many at once; how many, and how long it took."""
    cpi = driver(server, ledger)
    metadata = GroupMetadata({"name": "bench", "uuid": DIRECTOR}, "bench", "vm", policy="host-affinity")
    group = cpi.create_server_group(metadata, mark=Mark(DIRECTOR, Ids().intent()))
    operator = VsphereOperator(server, {"z1": "DC0_C0"})
    machines = [operator.boot("vm", "z1") for _ in range(max(parallel, 20))]
    refs = [cpi.client.reference(sdk.vim.VirtualMachine, one._moId) for one in machines]
    server.forget_calls()
    with ThreadPoolExecutor(parallel) as pool:
        _, wall, _ = measured(lambda: list(pool.map(lambda ref: cpi.membership.join(group, ref), refs)))
    return len(refs), wall


def driver(server: Vcenter, ledger: str = "sqlite://") -> VsphereCpi:
    properties = {"url": server.url, "user": "root", "password": "secret", "datacenter": "DC0"}
    coordinator = LedgerCoordinator(Ledger.open(ledger), "bench")
    return VsphereCpi("bench", properties, Runtime(DIRECTOR, coordinator))


def measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds of this process, seconds on the wall, and what came of it."""
    cpu, wall = _cpu(), time.monotonic()
    found = work()
    return _cpu() - cpu, time.monotonic() - wall, found


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
