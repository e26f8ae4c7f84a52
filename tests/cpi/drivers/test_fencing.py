"""A process whose lease is over changes no cloud, however far its call had come: every driver that sends requests asks
for the lease right before each one that changes something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from coterie.cpi.contract import Cpi
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
    """A VM in a group takes several requests that change something; whatever was made is found by its mark."""
    arguments, lease = lab.vm_arguments(group=lab.group()), Lease()
    cpi = reopen(lab, lease)
    mark = arguments["mark"]
    lease.left = 1
    try:
        cpi.create_vm(**arguments)
    except LeaseLost:
        assert lease.refused
    lease.left = None
    vm = cpi.create_vm(**arguments).cid  # what was begun is finished, as the next owner of the step does
    lab.undo(lab.cpi.delete_vm, vm)
    found = cpi.find("vm", mark)
    assert found and found.cid == vm
