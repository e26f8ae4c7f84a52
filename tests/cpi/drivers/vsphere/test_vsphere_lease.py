"""A writer that was paused between its read and its write finds that its lease has ended, and writes nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from peers.vsphere_bed import VsphereBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.cpi.drivers.vsphere.membership import ClusterWriter
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ledger.store import Ledger

RECONFIGURE = "ReconfigureComputeResource_Task"
LEASE_S = 1.0


class PausingWriter(ClusterWriter):
    """Pauses once, when it has read the cluster and is about to write."""

    def __init__(self, writer: ClusterWriter, is_paused: threading.Event, resume: threading.Event) -> None:
        super().__init__(*(getattr(writer, one.name) for one in fields(writer)))
        object.__setattr__(self, "events", (is_paused, resume))

    def _judge_all(self, *arguments: Any) -> Any:
        found = super()._judge_all(*arguments)
        is_paused, resume = self.events  # type: ignore[attr-defined] # set above, past the frozen fields
        if not is_paused.is_set():
            is_paused.set()
            resume.wait(60)
        return found


class PausingCpi(VsphereCpi):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_paused, self.resume = threading.Event(), threading.Event()
        self.cluster_writer = PausingWriter(self.cluster_writer, self.is_paused, self.resume)


def test_a_writer_whose_lease_has_ended_sends_nothing_and_loses_nothing(
    bed: VsphereBed, lab: Lab, tmp_path: Path
) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/lease.db")
    slow = LedgerCoordinator(ledger, "slow", lease_s=LEASE_S)
    slow_cpi = PausingCpi("lab", bed.properties(), Runtime(bed.director_uuid, slow))
    quick = VsphereCpi("lab", bed.properties(), Runtime(bed.director_uuid, LedgerCoordinator(ledger, "quick")))
    cid = lab.group("host-affinity")
    first, second = lab.vm_arguments(group=cid), lab.vm_arguments(group=cid)
    made: list[str] = []
    paused = threading.Thread(target=lambda: made.append(slow_cpi.create_vm(**first).cid))
    paused.start()
    assert slow_cpi.is_paused.wait(60)
    time.sleep(LEASE_S * 1.5)
    made.append(quick.create_vm(**second).cid)  # it has the lease now, and applies what waits
    bed.server.forget_calls()
    slow_cpi.resume.set()
    paused.join()
    sent = bed.server.methods()
    for vm in made:
        lab.undo(lab.cpi.delete_vm, vm)
    assert RECONFIGURE not in sent
    assert {one.vm_cid for one in lab.cpi.inspect_server_group(cid).members} == set(made)
    assert len(made) == 2
    ledger.close()


def test_a_slow_look_does_not_cost_the_lease_while_no_other_writer_wants_it(
    bed: VsphereBed, lab: Lab, tmp_path: Path
) -> None:
    ledger = Ledger.open(f"sqlite:///{tmp_path}/lease.db")
    coordinator = LedgerCoordinator(ledger, "slow", lease_s=LEASE_S)
    slow_cpi = PausingCpi("lab", bed.properties(), Runtime(bed.director_uuid, coordinator))
    cid = lab.group("host-affinity")
    threading.Timer(LEASE_S * 3, slow_cpi.resume.set).start()
    vm = slow_cpi.create_vm(**lab.vm_arguments(group=cid)).cid
    lab.undo(lab.cpi.delete_vm, vm)
    assert bed.server.methods().count(RECONFIGURE) == 1
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [vm]
    ledger.close()
