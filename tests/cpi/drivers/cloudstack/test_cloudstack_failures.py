"""Deploys that fail, hang, take too long, err and yet succeed: in the end there is one VM, or nothing at all."""

from __future__ import annotations

from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.expect import awaited
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, OutcomeUnknown, VMCreationFailed
from coterie.sandbox import faults

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA somebody"


def made(lab: Lab, arguments: dict[str, Any]) -> str:
    cid = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, cid)
    return cid


@pytest.mark.parametrize("command", ["createTags", "enableStaticNat", "associateIpAddress"])
def test_a_vm_that_cannot_be_finished_leaves_nothing(bed: CloudstackBed, lab: Lab, command: str) -> None:
    """Disk, address, keypair, NAT: the lab looks for all of them at its end."""
    properties = {**bed.vm_properties(lab.az), "ephemeral_disk_offering": "custom", "disk": 1024, "public_key": KEY}
    networks = {**bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": "127.200.0.20"}}
    faults.add(bed.datacenter.store, command, "error", times=1)
    with pytest.raises(CpiError):
        lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=properties, networks=networks))
    assert bed.client().listVirtualMachines() == {}


def test_a_deploy_that_outlasts_our_patience_is_undone(bed: CloudstackBed, lab: Lab) -> None:
    """The VM comes up after we gave up; the destroy behind it in the queue takes it away again."""
    properties = {**bed.vm_properties(lab.az), "ephemeral_disk_offering": "custom", "disk": 1024, "public_key": KEY}
    faults.add(bed.datacenter.store, "deployVirtualMachine", "slow-build", times=1, ms=3500)
    bed.more = {"state_timeout": 3}
    with pytest.raises(VMCreationFailed, match="did not end within") as caught:
        bed.open().create_vm(**lab.vm_arguments(cloud_properties=properties))
    assert caught.value.retryable
    assert bed.client().listVirtualMachines() == {}


def test_a_deploy_that_errs_and_yet_succeeds_is_found(bed: CloudstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "deployVirtualMachine", "error-after-commit", times=1)
    vm = made(lab, arguments)
    assert [one["id"] for one in bed.client().listVirtualMachines()["virtualmachine"]] == [vm]


def test_a_deploy_that_errs_and_fails_later_leaves_nothing(bed: CloudstackBed, lab: Lab) -> None:
    """The id was never learnt; the mark is what the broken VM is found by."""
    arguments = lab.vm_arguments(cloud_properties=lab.bed.huge_vm_properties(lab.az))
    faults.add(bed.datacenter.store, "deployVirtualMachine", "error-after-commit", times=1)
    with pytest.raises(CpiError):
        lab.cpi.create_vm(**arguments)
    assert bed.client().listVirtualMachines() == {}


def test_a_request_that_a_proxy_repeats_makes_one_vm(bed: CloudstackBed, lab: Lab) -> None:
    faults.add(bed.datacenter.store, "deployVirtualMachine", "twice", times=1)
    vm = made(lab, lab.vm_arguments())
    assert [one["id"] for one in bed.client().listVirtualMachines()["virtualmachine"]] == [vm]


def test_a_call_that_hangs_ends_with_the_request_time_out(bed: CloudstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "deployVirtualMachine", "hang", times=1)
    bed.more = {"request_timeout": 2}
    with pytest.raises(OutcomeUnknown, match="was lost"):
        bed.open().create_vm(**arguments)
    faults.clear(bed.datacenter.store)  # now the call goes on, and makes the VM
    bed.more = {}
    assert awaited(lambda: lab.cpi.find("vm", arguments["mark"]), 20)
    made(lab, arguments)
    assert len(bed.client().listVirtualMachines()["virtualmachine"]) == 1


def test_waiting_for_a_job_backs_off(bed: CloudstackBed, lab: Lab) -> None:
    """At the first interval it would take a hundred questions and more."""
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "deployVirtualMachine", "slow-build", times=1, ms=1000)
    before = bed.witness.seen["queryAsyncJobResult"]
    made(lab, arguments)
    assert bed.witness.seen["queryAsyncJobResult"] - before < 25


def test_an_undoing_that_takes_too_long_leaves_the_outcome_open_and_ends_well(bed: CloudstackBed, lab: Lab) -> None:
    """Neither the deploy nor the destroy ends in time; both do in the end, and a repeat makes the VM anew."""
    arguments = lab.vm_arguments()
    bed.set("coterie.job.ms", "1500")
    bed.more = {"state_timeout": 0.05}
    with pytest.raises(OutcomeUnknown, match="could not be removed"):
        bed.open().create_vm(**arguments)
    assert awaited(lambda: not bed.client().listAsyncJobs() or None, 20)
    assert bed.client().listVirtualMachines() == {}
    bed.set("coterie.job.ms", "0")
    made(lab, arguments)
