"""Many at once: processes that ask for one server group, and calls beyond what Google takes. Nothing is lost, nothing
is there twice, and how many calls a VM costs is counted."""

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
from peers.gcp_bed import GcpBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError

PROCESS = """
import json, sys
from coterie.cpi.contract import GroupMetadata, Mark, Runtime
from coterie.cpi.drivers.gcp.driver import GcpCpi
given = json.loads(sys.stdin.read())
for _ in range(given["times"]):
    cpi = GcpCpi("lab", given["properties"], Runtime(given["director"], None))
    metadata = GroupMetadata({"name": "d", "uuid": given["director"]}, "dep", "g")
    print(cpi.create_server_group(metadata, mark=Mark(given["director"], given["intent"])))
for arguments in given["vms"]:
    mark = Mark(given["director"], arguments.pop("intent"))
    print(cpi.create_vm(**arguments, mark=mark).cid)
"""


def policies(bed: GcpBed) -> list[str]:
    return [cid for kind, cid in bed.inventory() if kind == "server_group"]


def run_processes(bed: GcpBed, lab: Lab, processes: int, times: int, vms: int) -> None:
    """Each asks for the group so many times, then makes its VMs, all in that group."""
    mark, running = lab.mark(), []
    for _ in range(processes):
        machines: list[dict[str, Any]] = []
        for _ in range(vms):
            arguments = lab.vm_arguments(None, mark.group_cid)
            intent = arguments.pop("mark").intent
            machines.append({**arguments, "intent": intent})
        given = {"times": times, "director": bed.director_uuid, "intent": mark.intent, "vms": machines}
        made = subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert made.stdin
        made.stdin.write(json.dumps({**given, "properties": bed.properties()}))
        made.stdin.close()
        running.append(made)
    printed = []
    for made in running:
        assert made.stdout and made.stderr
        printed.append(made.stdout.read().split())
        assert made.wait(300) == 0, made.stderr.read()[-2000:]
    assert policies(bed) == [mark.group_cid]
    assert {line for lines in printed for line in lines[:times]} == {mark.group_cid}
    found = [line for lines in printed for line in lines[times:]]
    assert len(set(found)) == processes * vms
    members = lab.cpi.inspect_server_group(mark.group_cid).members
    assert sorted(one.vm_cid for one in members) == sorted(found)
    for vm in found:
        lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(mark.group_cid)


def test_processes_that_ask_for_one_group_get_one(bed: GcpBed, lab: Lab) -> None:
    run_processes(bed, lab, processes=3, times=5, vms=1)


@pytest.mark.full
def test_twenty_processes_of_two_hundred_requests_get_one_group(bed: GcpBed, lab: Lab) -> None:
    run_processes(bed, lab, processes=20, times=200, vms=2)


def test_what_a_vm_costs(bed: GcpBed, lab: Lab) -> None:
    """As docs/gcp.md says: requests, and how many of them change something."""
    seen: list[str] = []
    group = lab.group()
    lab.image()
    arguments = lab.vm_arguments(None, group)
    bed.front.watch = seen.append
    vm = lab.bed.open().create_vm(**arguments).cid
    assert Counter(seen) == Counter(CREATED)
    seen.clear()
    lab.bed.open().delete_vm(vm)
    assert Counter(seen) == Counter(DELETED)


CREATED = (
    "regions.get",  # only where a zone does not begin with its region, as Google's do
    *("instances.get", "resourcePolicies.get", "firewalls.get", "images.get", "subnetworks.get"),
    *("instances.insert", "zoneOperations.wait", "instances.get"),
)
DELETED = (
    *("instances.get", "instances.delete", "zoneOperations.wait", "instances.get"),
    *("disks.get", "disks.get"),
)


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


def test_a_storm_over_the_rate(bed: GcpBed, lab: Lab) -> None:
    """Each VM has a mark of its own: created, found, deleted, while Google refuses what is too much."""
    group, refused = lab.group(), Counter[str]()
    lab.image()
    arguments = [lab.vm_arguments(None, group) for _ in range(8)]
    bed.front.settings.throttle = True
    bed.front.empty_buckets()

    def live(one: dict[str, Any]) -> None:
        vm = insist(lambda: bed.open().create_vm(**one), refused).cid
        found = insist(lambda: bed.open().find("vm", one["mark"]), refused)
        assert found and found.cid == vm
        insist(lambda: bed.open().delete_vm(vm), refused)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(live, arguments))
    bed.front.settings.throttle = False
    assert bed.front.refused > 0, "it was no storm"
    assert "outcome_unknown" not in refused
    assert {kind for kind, _ in bed.inventory()} == {"image", "server_group"}
