"""Deploys that fail, hang, take too long, err and yet succeed: in the end there is one VM, or nothing at all."""

from __future__ import annotations

from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.expect import wait_for
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, VMCreationFailed
from coterie.cpi.drivers.cloudstack.client import Client, Refusal
from coterie.cpi.drivers.cloudstack.create_vm import CloudstackVmCreation
from coterie.cpi.drivers.cloudstack.driver import CloudstackCpi
from coterie.cpi.drivers.cloudstack.networks import PublicAddresses
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
    assert wait_for(lambda: lab.cpi.find("vm", arguments["mark"]), 20)
    made(lab, arguments)
    assert len(bed.client().listVirtualMachines()["virtualmachine"]) == 1


def test_waiting_for_a_job_backs_off(bed: CloudstackBed, lab: Lab) -> None:
    """At the first interval it would take a hundred questions and more."""
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "deployVirtualMachine", "slow-build", times=1, ms=1000)
    before = bed.witness.seen["queryAsyncJobResult"]
    made(lab, arguments)
    assert bed.witness.seen["queryAsyncJobResult"] - before < 25


@pytest.mark.parametrize("busy", [Throttled("later", remedy="wait"), Refusal("queryAsyncJobResult", 429, "later")])
def test_a_vm_is_kept_however_often_the_question_about_its_job_is_throttled(
    bed: CloudstackBed, lab: Lab, monkeypatch: pytest.MonkeyPatch, busy: CpiError
) -> None:
    """By the cloud, or by our own pace: the deploy goes on meanwhile."""
    asked: list[str] = []
    request = Client.request

    def throttle(client: Client, command: str, parameters: dict[str, Any], *, changes: bool) -> dict[str, Any]:
        if command == "queryAsyncJobResult":
            asked.append(command)
            if len(asked) <= 7:  # more than one question is repeated
                raise busy
        return request(client, command, parameters, changes=changes)

    monkeypatch.setattr(Client, "request", throttle)
    vm = made(lab, lab.vm_arguments())
    assert [one["id"] for one in bed.client().listVirtualMachines()["virtualmachine"]] == [vm]


def test_a_question_that_our_own_pace_puts_off_is_repeated(
    bed: CloudstackBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, paces = lab.disk(), [Throttled("later", remedy="wait")]
    cpi = bed.open()
    assert isinstance(cpi, CloudstackCpi)
    pace = cpi.client.permit.limit.pace

    def throttle(name: str) -> Any:
        if paces:
            raise paces.pop()
        return pace(name)

    monkeypatch.setattr(cpi.client.permit.limit, "pace", throttle)
    assert cpi.has_disk(disk)
    assert paces == []


def test_an_undoing_that_takes_too_long_leaves_the_outcome_open_and_ends_well(bed: CloudstackBed, lab: Lab) -> None:
    """Neither the deploy nor the destroy ends in time; both do in the end, and a repeat makes the VM anew."""
    arguments = lab.vm_arguments()
    bed.set("coterie.job.ms", "1500")
    bed.more = {"state_timeout": 0.05}
    with pytest.raises(OutcomeUnknown, match="could not be removed"):
        bed.open().create_vm(**arguments)
    assert wait_for(lambda: not bed.client().listAsyncJobs() or None, 20)
    assert bed.client().listVirtualMachines() == {}
    bed.set("coterie.job.ms", "0")
    made(lab, arguments)


def test_a_repeat_maps_the_public_address_that_an_interrupted_call_did_not(
    bed: CloudstackBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = {**bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": "127.200.0.20"}}
    arguments = lab.vm_arguments(networks=networks)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PublicAddresses, "map", _interrupt)
        lab.cpi.create_vm(**arguments)
    vm = made(lab, arguments)
    (address,) = bed.client().listPublicIpAddresses()["publicipaddress"]
    assert address["virtualmachineid"] == vm


@pytest.mark.parametrize(
    ("step", "error", "raised", "left"),
    [
        ("_tag", CpiError("no", remedy="change it"), CpiError, 0),
        ("_tag", Throttled("later", remedy="wait"), OutcomeUnknown, 1),
        ("map", CpiError("no", remedy="change it"), OutcomeUnknown, 1),
    ],
)
def test_a_found_vm_that_cannot_be_finished_is_removed_or_in_doubt(
    bed: CloudstackBed,
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    error: CpiError,
    raised: type[CpiError],
    left: int,
) -> None:
    """Removed if it never was finished and never can be; a certain error for a VM that stays would lose it."""
    networks = {**bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": "127.200.0.20"}}
    arguments = lab.vm_arguments(networks=networks)
    owner = CloudstackVmCreation if step == "_tag" else PublicAddresses

    def fail(*arguments: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            lab.cpi.create_vm(**arguments)
        patch.setattr(owner, step, fail)
        with pytest.raises(CpiError, match=error.what) as caught:
            lab.cpi.create_vm(**arguments)
    assert type(caught.value) is raised
    assert len(bed.client().listVirtualMachines().get("virtualmachine", ())) == left
    if left:
        made(lab, arguments)


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt
