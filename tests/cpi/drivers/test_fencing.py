"""A process whose lease is over changes no cloud, however far its call had come: every driver that sends requests asks
for the lease right before each one that changes something."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from peers.aws_bed import AwsBed
from peers.azure_bed import AzureBed
from peers.cloudstack_bed import CloudstackBed
from peers.gcp_bed import GcpBed
from peers.incus_bed import IncusBed
from peers.openstack_bed import OpenstackBed
from peers.vsphere_bed import VsphereBed

from coterie.cpi.conformance.bed import TestBed
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, OutcomeUnknown
from coterie.errors import LeaseLost

BEDS: dict[str, Callable[[Path], TestBed]] = {
    "aws": AwsBed,
    "azure": AzureBed,
    "cloudstack": CloudstackBed,
    "gcp": GcpBed,
    "incus": IncusBed,
    "openstack": OpenstackBed,
    "vsphere": VsphereBed,
}
MARKS = {"openstack": pytest.mark.openstack, "incus": pytest.mark.incus}


class Lease:
    """Held for so many requests more; None: for all."""

    left: int | None = None
    refused = 0

    def require(self) -> None:
        if self.left == 0:
            self.refused += 1
            raise LeaseLost("it is over")
        if self.left:
            self.left -= 1


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in BEDS])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    bed = BEDS[request.param](tmp_path)
    made = Lab(bed)
    yield made
    made.close()
    bed.close()


def reopen(lab: Lab, lease: Lease) -> Cpi:
    """The same cloud for a process of its own."""
    cpi = lab.bed.open()
    return type(cpi)(cpi.cloud, cpi.properties, replace(cpi.runtime, require_lease=lease.require))


def test_without_a_lease_nothing_changes(lab: Lab) -> None:
    group, disk = lab.group(), lab.disk()
    vm = lab.vm(group=group)
    lease = Lease()
    cpi = reopen(lab, lease)
    before = lab.inventory()
    lease.left = 0
    changes: dict[str, Callable[[], Any]] = {
        "create_vm": partial(cpi.create_vm, **lab.vm_arguments(group=group)),
        "create_disk": partial(cpi.create_disk, 1024, lab.bed.disk_properties(lab.az), mark=lab.mark()),
        "create_server_group": partial(cpi.create_server_group, lab.metadata(), mark=lab.mark()),
        "attach_disk": partial(cpi.attach_disk, vm, disk),
        "set_vm_metadata": partial(cpi.set_vm_metadata, vm, {"a": "b"}),
        "reboot_vm": partial(cpi.reboot_vm, vm),
        "delete_disk": partial(cpi.delete_disk, disk),
        "delete_vm": partial(cpi.delete_vm, vm),
    }
    for name, change in changes.items():
        with pytest.raises(LeaseLost):
            change()
            pytest.fail(f"{name} was carried out")
    assert lease.refused >= len(changes)
    assert lab.inventory() == before
    assert cpi.has_vm(vm), "questions are answered"


def test_a_lease_that_ends_within_a_call_stops_it_before_its_next_request(lab: Lab) -> None:
    """Creating a VM takes some requests that change something: the lease ends after the first of them, after the
    second, and so on. Whatever was made is found by its mark, and finished as the next owner of the step does."""
    group = lab.group("soft-anti-affinity")
    for left in itertools.count(1):
        arguments, lease = lab.vm_arguments(group=group), Lease()
        cpi = reopen(lab, lease)
        lease.left = left
        with suppress(LeaseLost, OutcomeUnknown):  # unknown: what was made could not be removed again
            cpi.create_vm(**arguments)
        lease.left = None
        vm = cpi.create_vm(**arguments).cid
        found = cpi.find("vm", arguments["mark"])
        assert found and found.cid == vm
        cpi.delete_vm(vm)
        if not lease.refused:
            break
