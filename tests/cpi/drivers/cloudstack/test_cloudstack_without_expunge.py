"""An account that may not expunge: what is deleted holds on to its address, name and group until the cloud lets go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peers.cloudstack_bed import CloudstackUserBed

from coterie.cpi.conformance.expect import wait_for
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, GroupInUse, NoPlacement, VMCreationFailed
from coterie.cpi.drivers.cloudstack.create_vm import CloudstackVmCreation
from coterie.cpi.drivers.cloudstack.server_groups import AffinityGroups
from coterie.sandbox.fronts.cloudstack.command_table import HANDLERS


@pytest.fixture
def lab(user_bed: CloudstackUserBed) -> Lab:
    return Lab(user_bed)  # not closed: what is destroyed stays in the inventory, which is what is tested here


def done(call: Callable[[], object]) -> bool | None:
    """True once the call is not refused any more."""
    try:
        call()
    except CpiError:
        return None
    return True


def refuse_changes_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the account's role lacks the command."""
    monkeypatch.delitem(HANDLERS, "updatevmnicip")


def test_a_deleted_vm_gives_its_address_to_the_next_at_once(user_bed: CloudstackUserBed, lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    for _ in range(3):
        user_bed.open().delete_vm(user_bed.open().create_vm(**lab.vm_arguments(networks=networks)).cid)
    (item,) = [one for one in user_bed.open().check() if one.what == "expunge"]
    assert (item.ok, item.facts) == (True, None)
    assert "updateVmNicIp" in item.detail


@pytest.mark.parametrize("step", ["boot", "finish", "found"])
def test_a_vm_that_is_undone_before_it_is_tagged_gives_its_address_to_the_next(
    user_bed: CloudstackUserBed, lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    arguments = lab.vm_arguments(networks=networks)

    def fail(*arguments: object) -> None:
        raise CpiError("no", remedy="change it")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    if step == "found":
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(CloudstackVmCreation, "_tag", interrupt)
            user_bed.open().create_vm(**arguments)
    with monkeypatch.context() as patch, pytest.raises(CpiError):
        if step == "boot":
            patch.setattr(AffinityGroups, "require_membership", fail)
        else:
            patch.setattr(CloudstackVmCreation, "_tag", fail)
        user_bed.open().create_vm(**arguments)
    assert user_bed.open().create_vm(**lab.vm_arguments(networks=networks)).cid


def test_a_role_that_cannot_change_addresses_is_found_by_the_check(
    user_bed: CloudstackUserBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_changes_of_addresses(monkeypatch)
    (item,) = [one for one in user_bed.open().check() if one.what == "expunge"]
    assert item.facts == {"keeps_addresses": True}
    for setting in ("allow.user.expunge.recover.vm", "expunge_wait_s", "expunge.delay", "updateVmNicIp"):
        assert setting in item.remedy


def test_an_address_is_free_when_the_cloud_expunges(
    user_bed: CloudstackUserBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_changes_of_addresses(monkeypatch)
    networks = lab.bed.networks(lab.az, lab.address())
    vm = lab.vm(networks=networks)
    lab.cpi.delete_vm(vm)
    assert lab.cpi.has_vm(vm) is False
    with pytest.raises(VMCreationFailed) as caught:
        user_bed.open().create_vm(**lab.vm_arguments(networks=networks))
    assert "expunge" in caught.value.remedy
    user_bed.set("expunge.delay", "0")
    user_bed.set("expunge.interval", "0")
    again = lab.vm_arguments(networks=networks)
    assert wait_for(lambda: done(lambda: user_bed.open().create_vm(**again)), 20)


def test_a_group_is_kept_until_its_last_vm_is_expunged(user_bed: CloudstackUserBed, lab: Lab) -> None:
    group = lab.group()
    vm = lab.vm(group=group)
    lab.cpi.delete_vm(vm)
    with pytest.raises(GroupInUse) as caught:
        lab.cpi.delete_server_group(group)
    assert vm in caught.value.why
    view = lab.cpi.inspect_server_group(group)
    assert view.state == "drifted"
    assert any(vm in note and "expunge" in note for note in view.notes)
    user_bed.set("expunge.delay", "0")
    user_bed.set("expunge.interval", "0")
    assert wait_for(lambda: done(lambda: lab.cpi.delete_server_group(group)), 20)


def test_a_failed_vm_does_not_block_its_own_repeat(user_bed: CloudstackUserBed, lab: Lab) -> None:
    arguments = lab.vm_arguments(cloud_properties=lab.bed.huge_vm_properties(lab.az))
    dynamic = {"default": {"type": "dynamic", "cloud_properties": {"name": "net-z1"}}}
    arguments |= {"networks": dynamic}
    for _ in range(2):
        with pytest.raises(NoPlacement):
            user_bed.open().create_vm(**arguments)
    arguments["cloud_properties"] = lab.bed.vm_properties(lab.az)
    created = user_bed.open().create_vm(**arguments)
    found = lab.cpi.find("vm", arguments["mark"])
    assert found and found.cid == created.cid


def test_waiting_for_the_expunge_can_be_configured(user_bed: CloudstackUserBed, lab: Lab) -> None:
    vm = lab.vm()
    user_bed.more = {"expunge_wait_s": 0.05}
    with pytest.raises(CpiError, match="not expunged within"):
        user_bed.open().delete_vm(vm)
    assert user_bed.client().listVirtualMachines() == {}  # a user does not see it, and yet it was waited for
    user_bed.more = {"expunge_wait_s": 20}
    user_bed.set("expunge.delay", "0")
    user_bed.set("expunge.interval", "0")
    networks = lab.bed.networks(lab.az, lab.address())
    for _ in range(2):  # so the address is free when the deletion returns
        user_bed.open().delete_vm(user_bed.open().create_vm(**lab.vm_arguments(networks=networks)).cid)


def test_a_network_that_a_destroyed_vm_holds_is_not_deleted(user_bed: CloudstackUserBed, lab: Lab) -> None:
    made = lab.cpi.create_network({"type": "manual", "range": "127.99.0.0/24", "cloud_properties": {}}, mark=lab.mark())
    networks = {"default": {"type": "manual", "ip": "127.99.0.9", "cloud_properties": made.cloud_properties}}
    vm = lab.vm(networks=networks)
    with pytest.raises(CpiError, match=vm):
        lab.cpi.delete_network(made.cid)
    lab.cpi.delete_vm(vm)
    with pytest.raises(CpiError) as caught:
        lab.cpi.delete_network(made.cid)
    assert "expunges it" in caught.value.remedy
    user_bed.set("expunge.delay", "0")
    user_bed.set("expunge.interval", "0")
    assert wait_for(lambda: done(lambda: lab.cpi.delete_network(made.cid)), 20)


def test_a_disk_on_local_storage_is_refused_before_anything_is_made(user_bed: CloudstackUserBed, lab: Lab) -> None:
    vm, disk = lab.vm(), lab.cpi.create_disk(1024, {"disk_offering": "local"}, mark=lab.mark())
    lab.cpi.attach_disk(vm, disk)
    lab.cpi.detach_disk(vm, disk)
    with pytest.raises(CpiError, match="local storage"):
        lab.cpi.create_vm(**lab.vm_arguments(disk_cids=[disk]))


def test_a_persistent_disk_is_free_at_once_and_an_ephemeral_one_is_gone(user_bed: CloudstackUserBed, lab: Lab) -> None:
    """Though the VM that had them is there for another day."""
    properties = {**user_bed.vm_properties(lab.az), "ephemeral_disk_offering": "custom", "disk": 1024}
    created = lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=properties))
    disk, other = lab.disk(), lab.vm()
    lab.cpi.attach_disk(created.cid, disk)
    lab.cpi.delete_vm(created.cid)
    client = user_bed.client()
    assert [one["id"] for one in client.listVolumes(type="DATADISK")["volume"]] == [disk]
    assert lab.cpi.attach_disk(other, disk)
    assert lab.cpi.get_disks(other) == [disk]
