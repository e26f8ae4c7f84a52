"""Many at once: processes that ask for one server group, and calls beyond what Azure takes. Nothing is lost, nothing is
there twice, and how many calls a VM costs is counted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from peers.azure_bed import AzureBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Mark

SPREADS = ("availability-set", "scale-set")
CALLS_OF_A_VM = 24  # of a life: created in a group, found, deleted
PROCESS = """
import json, sys
from coterie.cpi.contract import GroupMetadata, Mark, Runtime
from coterie.cpi.drivers.azure.driver import AzureCpi
given = json.loads(sys.stdin.read())
for _ in range(given["times"]):
    cpi = AzureCpi("lab", given["properties"], Runtime(given["director"], None))
    metadata = GroupMetadata({"name": "d", "uuid": given["director"]}, "dep", "g")
    print(cpi.create_server_group(metadata, mark=Mark(given["director"], given["intent"])))
for arguments in given["vms"]:
    mark = Mark(given["director"], arguments.pop("intent"))
    print(cpi.create_vm(**arguments, mark=mark).cid)
"""


def sets(bed: AzureBed) -> list[str]:
    return [cid for kind, cid in bed.inventory() if kind == "server_group"]


def run_processes(bed: AzureBed, lab: Lab, processes: int, times: int, vms: int) -> list[list[str]]:
    """What each printed: the group as often as it asked for it, then its VMs, all in that group."""
    mark, running = lab.mark(), []
    for _ in range(processes):
        machines: list[dict[str, Any]] = []
        for _ in range(vms):
            arguments = lab.vm_arguments(None, mark.group_cid)
            intent = arguments.pop("mark").intent
            machines.append({**arguments, "intent": intent})
        given = {"times": times, "director": bed.director_uuid, "intent": mark.intent, "vms": machines}
        command = [sys.executable, "-c", PROCESS]
        made = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert made.stdin
        made.stdin.write(json.dumps({**given, "properties": {**bed.peer.properties(), **bed.more}}))
        made.stdin.close()
        running.append(made)
    printed = []
    for made in running:
        assert made.stdout and made.stderr
        printed.append(made.stdout.read().split())
        assert made.wait(300) == 0, made.stderr.read()[-2000:]
    assert sets(bed) == [mark.group_cid]
    assert {line for lines in printed for line in lines[:times]} == {mark.group_cid}
    found = [line for lines in printed for line in lines[times:]]
    assert len(set(found)) == processes * vms
    members = bed.open().inspect_server_group(mark.group_cid).members
    assert sorted(one.vm_cid for one in members) == sorted(found)
    for vm in found:
        lab.cpi.delete_vm(vm)
    bed.open().delete_server_group(mark.group_cid)
    return printed


@pytest.mark.parametrize("spread", SPREADS)
def test_processes_that_ask_for_one_group_get_one(bed: AzureBed, lab: Lab, spread: str) -> None:
    bed.more["spread"] = spread
    run_processes(bed, lab, processes=3, times=5, vms=1)


@pytest.mark.full
@pytest.mark.parametrize("spread", SPREADS)
def test_twenty_processes_of_two_hundred_requests_get_one_group(bed: AzureBed, lab: Lab, spread: str) -> None:
    bed.more["spread"] = spread
    run_processes(bed, lab, processes=20, times=200, vms=5)


def test_what_a_vm_costs(bed: AzureBed, lab: Lab) -> None:
    """As docs/azure.md says: requests, and how many of them change something."""
    seen: list[str] = []
    group = lab.group()
    lab.image()
    arguments = lab.vm_arguments(None, group)
    bed.peer.front.watch = lambda method, path: seen.append(method)
    vm = lab.bed.open().create_vm(**arguments).cid
    assert (len(seen), seen.count("PUT")) == (12, 2)
    seen.clear()
    lab.bed.open().delete_vm(vm)
    assert (len(seen), seen.count("DELETE")) == (6, 1)


def insist(call: Callable[[], Any], refused: Counter[str]) -> Any:
    """As the engine does: what may be repeated is repeated."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except CpiError as error:
            refused[error.code] += 1
            if not error.retryable or time.monotonic() > deadline:
                raise
            time.sleep(min(float(error.details.get("retry_after") or 0.05), 0.2))


def weather(bed: AzureBed, lab: Lab, vms: int, threads: int) -> None:
    """Each VM has a mark of its own: created, found, deleted, while Azure refuses what is too much."""
    group, seen, refused = lab.group(), Counter[str](), Counter[str]()
    lab.image()
    arguments = [lab.vm_arguments(None, group) for _ in range(vms)]
    bed.peer.front.limits.on, bed.peer.front.limits.scale = True, 10.0
    bed.peer.front.watch = lambda method, path: seen.update([method])

    def live(one: dict[str, Any]) -> str:
        mark: Mark = one["mark"]
        vm = insist(lambda: bed.open().create_vm(**one), refused).cid
        found = insist(lambda: bed.open().find("vm", mark), refused)
        assert found and found.cid == vm
        return str(vm)

    with ThreadPoolExecutor(threads) as pool:
        made = list(pool.map(live, arguments))
    assert sorted(made) == sorted(one["mark"].name() for one in arguments)
    assert {cid for kind, cid in bed.inventory() if kind == "vm"} == set(made)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda vm: insist(lambda: bed.open().delete_vm(vm), refused), made))
    bed.peer.front.limits.on = False
    assert bed.peer.front.limits.refused > 0, "it was no storm"
    assert "outcome_unknown" not in refused
    assert {kind for kind, _ in bed.inventory()} == {"image", "server_group"}
    calls = sum(seen.values()) - bed.peer.front.limits.refused
    assert calls / vms <= CALLS_OF_A_VM, f"{calls} calls for {vms} VMs: {seen}"


def test_a_small_storm(bed: AzureBed, lab: Lab) -> None:
    bed.peer.front.limits.squeeze(10)
    weather(bed, lab, vms=6, threads=6)


@pytest.mark.full
def test_a_storm(bed: AzureBed, lab: Lab) -> None:
    weather(bed, lab, vms=120, threads=16)
