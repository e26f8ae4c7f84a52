"""Many processes join one group while an administrator changes it too, one process is killed and one is paused.

Afterwards nothing that was acknowledged is missing once the group was reconciled, everything that was missing before
was reported, and no administrator's member is gone but for writes that overlapped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from peers.vsphere_operator import VsphereOperator
from tests.peers.vcenter import vcenter

from coterie.cpi.conformance.lab import Lab
from peers import vsphere_writer

RECONFIGURE = "ReconfigureComputeResource_Task"
LEASE_S = 2.0
LOOK = 7  # calls of a writer's session from the beginning of its look to its write


class Writer:
    def __init__(self, order: dict[str, Any]) -> None:
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self.reports: list[str] = []  # what an administrator wrote during a write of ours, and what became of it
        self._process = subprocess.Popen(
            [sys.executable, vsphere_writer.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        json.dump(order, self._process.stdin)  # type: ignore[arg-type] # a pipe, as requested above
        self._process.stdin.close()  # type: ignore[union-attr]
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def await_first(self) -> None:
        while not self.acknowledged and self._process.poll() is None:
            time.sleep(0.01)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            word, _, rest = line.strip().partition(" ")
            known = {"ack": self.acknowledged, "group.restored": self.reports, "group.overwritten": self.reports}
            known.get(word, self.failures).append(rest)


class Administrator(threading.Thread):
    """Adds and removes VMs of their own, by reading the list and writing it back."""

    def __init__(self, bed: VsphereBed, group: str) -> None:
        super().__init__()
        self._hands = VsphereOperator(bed.server, {"z1": "DC0_C0"}, user="administrator")
        self._group = group
        self._vms = [self._hands.boot("admin", "z1") for _ in range(4)]
        self._over = threading.Event()
        self.expected: dict[str, tuple[float, float]] = {}  # member → when it was written
        self.evicted_by_overlap = 0

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            vm = self._vms[number % len(self._vms)]
            began = time.time()
            if vm._moId in self.expected:
                self._hands.rejoin(self._group, drop=[vm])
                del self.expected[vm._moId]
            else:
                self._hands.rejoin(self._group, add=[vm])
                self.expected[vm._moId] = (began, time.time())
            number += 3
            self._over.wait(0.15)

    def stop(self) -> None:
        self._over.set()
        self.join()


def crowd(folder: Path, processes: int, vms: int) -> None:
    with vcenter() as server:
        bed = VsphereBed(folder, server)
        bed.more = {"agent_settings": "guestinfo"}
        lab = Lab(bed)
        cid = lab.group("host-affinity")
        first = lab.vm(group=cid)
        group = next(one.cid for one in lab.cpi.inspect_server_group(cid).resources if one.kind == "server_group")
        admin = Administrator(bed, group)
        admin.start()
        order = {
            "properties": bed.properties(),
            "ledger": f"sqlite:///{folder}/writers.db",
            "director": bed.director_uuid,
            "stemcell": lab.image(),
            "group": cid,
            "vms": vms,
            "lease_s": LEASE_S,
        }
        writers = [Writer({**order, "name": f"writer-{number}"}) for number in range(processes)]
        disturb(writers)
        admin.stop()
        judge(bed, lab, cid, group, admin, [first, *(vm for one in writers for vm in one.acknowledged)])
        reports = [report for one in writers for report in one.reports]
        back = sum("it was put back" in one for one in reports)
        print(f"administrator's changes taken back and reported {len(reports)}, put back {back}")
        unfit = [failure for one in writers for failure in one.failures]
        assert unfit == []


def disturb(writers: list[Writer]) -> None:
    """One is killed in the midst of its work, one sleeps for longer than its lease."""
    killed, paused, *_ = writers
    killed.await_first()
    killed.signal(signal.SIGKILL)
    paused.await_first()
    paused.signal(signal.SIGSTOP)
    time.sleep(LEASE_S + 1)
    paused.signal(signal.SIGCONT)
    for writer in writers:
        writer.end()


def judge(bed: VsphereBed, lab: Lab, cid: str, group: str, admin: Administrator, acknowledged: list[str]) -> None:
    view = lab.cpi.inspect_server_group(cid)
    lost = set(acknowledged) - {one.vm_cid for one in view.members}
    assert all(any(vm in note for note in view.notes) for vm in lost), "a loss was not reported"
    lab.cpi.update_server_group(cid, lab.metadata("host-affinity"))
    view = lab.cpi.inspect_server_group(cid)
    assert set(acknowledged) <= {one.vm_cid for one in view.members}
    assert view.state == "live"
    members = {one._moId for one in bed.operator.group(group).vm}
    evicted = {vm: when for vm, when in admin.expected.items() if vm not in members}
    windows = looks(bed)
    unexplained = [vm for vm, when in evicted.items() if not any(a <= when[1] and when[0] <= b for a, b in windows)]
    assert unexplained == [], "an administrator's member was evicted by a write that did not overlap"
    joins, writes = len(acknowledged), len(windows)
    print(f"{joins} joins in {writes} writes; lost and reported {len(lost)}; evicted by overlap {len(evicted)}")


def looks(bed: VsphereBed) -> list[tuple[float, float]]:
    """For each write of ours: when its look began, and when it was done."""
    sessions: dict[str, list[dict[str, Any]]] = {}
    for call in bed.server.calls():
        if call["user"] == "root":
            sessions.setdefault(call["session"], []).append(call)
    return [
        (calls[max(0, number - LOOK)]["began"] / 1e6, call["ended"] / 1e6)
        for calls in sessions.values()
        for number, call in enumerate(calls)
        if call["method"] == RECONFIGURE
    ]


def test_several_processes_share_a_group(tmp_path: Path) -> None:
    crowd(tmp_path, processes=3, vms=4)


@pytest.mark.full
def test_eight_processes_of_twenty_five_share_a_group(tmp_path: Path) -> None:
    crowd(tmp_path, processes=8, vms=25)
