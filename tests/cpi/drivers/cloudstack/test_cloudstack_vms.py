"""What the driver makes of a VM's spec: disks, NICs, addresses, keys; and what is left of one that fails: nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    CpiError,
    InvalidCall,
    OutcomeUnknown,
    VMCreationFailed,
)
from coterie.cpi.drivers.cloudstack.client import Client
from coterie.cpi.drivers.cloudstack.properties import NETWORK, read_vm_spec
from coterie.sandbox import faults
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.furnish import default_network
from coterie.sandbox.twist import Tx

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA somebody"


def specified(lab: Lab, **properties: Any) -> dict[str, Any]:
    return lab.vm_arguments(cloud_properties={**lab.bed.vm_properties(lab.az), **properties})


def row(bed: CloudstackBed, vm: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.client().listVirtualMachines(id=vm)["virtualmachine"][0]
    return found


def made(lab: Lab, arguments: dict[str, Any]) -> str:
    cid = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, cid)
    return cid


def test_an_ephemeral_disk_comes_with_the_vm_and_goes_with_it(bed: CloudstackBed, lab: Lab) -> None:
    arguments = specified(lab, ephemeral_disk_offering="custom", disk=1500)
    vm, disk = made(lab, arguments), lab.disk()
    lab.cpi.attach_disk(vm, disk)
    volumes = {one["name"]: one for one in bed.client().listVolumes(virtualmachineid=vm, type="DATADISK")["volume"]}
    assert volumes[arguments["mark"].name(f"ephemeral-{vm}", limit=255)]["size"] == 2 * 2**30
    assert lab.cpi.get_disks(vm) == [disk]
    assert lab.cpi.find("disk", arguments["mark"]) is None
    lab.cpi.delete_vm(vm)
    assert [one["id"] for one in bed.client().listVolumes(type="DATADISK")["volume"]] == [disk]


def test_the_ephemeral_disk_of_a_vm_that_vanished_goes_with_its_deletion(bed: CloudstackBed, lab: Lab) -> None:
    vm, disk = made(lab, specified(lab, ephemeral_disk_offering="custom", disk=1500)), lab.disk()
    other = made(lab, specified(lab, ephemeral_disk_offering="custom", disk=1500))
    bed.client().destroyVirtualMachine(id=vm, expunge=True)
    assert len(bed.client().listVolumes(type="DATADISK")["volume"]) == 3
    lab.cpi.delete_vm(vm)
    left = {one["id"]: one.get("virtualmachineid") for one in bed.client().listVolumes(type="DATADISK")["volume"]}
    assert set(left.values()) == {None, other}
    assert disk in left


def test_an_ephemeral_disk_that_was_never_named_goes_with_its_vm_too(bed: CloudstackBed, lab: Lab) -> None:
    vm = made(lab, specified(lab, ephemeral_disk_offering="custom", disk=1024))
    client = bed.client()
    (volume,) = client.listVolumes(virtualmachineid=vm, type="DATADISK")["volume"]
    client.updateVolume(id=volume["id"], name="DATA-77")
    lab.cpi.delete_vm(vm)
    assert client.listVolumes(type="DATADISK") == {}


def test_sizes_are_rounded_up_and_custom_offerings_get_theirs(bed: CloudstackBed, lab: Lab) -> None:
    with bed.datacenter.store.writing() as db:
        shelf.put(Tx(db, "admin", 0.0, bed.datacenter.ids), "serviceoffering", "free", {"cpu": None, "ram_mb": None})
    vm = made(lab, specified(lab, compute_offering="free", cpu=3, ram_mb=700, root_disk_size=10241))
    found = row(bed, vm)
    assert (found["cpunumber"], found["memory"]) == (3, 700)
    (root,) = bed.client().listVolumes(virtualmachineid=vm, type="ROOT")["volume"]
    assert root["size"] == 11 * 2**30


def test_a_vm_has_several_nics_the_routed_one_first(bed: CloudstackBed, lab: Lab) -> None:
    other = lab.cpi.create_network(lab.bed.subnet(), mark=lab.mark())
    lab.undo(lab.cpi.delete_network, other.cid)
    networks = {
        "inner": {"type": "manual", "ip": "10.99.0.9", "cloud_properties": other.cloud_properties},
        "outer": {
            "type": "dynamic",
            "ip": "127.40.9.9",
            "default": ["gateway"],
            "cloud_properties": {"name": "net-z1"},
        },
    }
    created = lab.cpi.create_vm(**lab.vm_arguments(networks=networks))
    lab.undo(lab.cpi.delete_vm, created.cid)
    nics = row(bed, created.cid)["nic"]
    assert [nic["networkname"] == "net-z1" for nic in nics] == [True, False]
    assert created.networks["inner"]["ip"] == "10.99.0.9"
    assert created.networks["inner"]["mac"] == nics[1]["macaddress"]
    assert created.networks["outer"]["ip"] == nics[0]["ipaddress"] != "127.40.9.9"


def test_the_userdata_holds_everything_for_the_agent(bed: CloudstackBed, lab: Lab) -> None:
    bed.more = {"ssh_public_keys": [KEY], "agent": {"mbus": "nats://127.0.0.1", "ntp": ["127.0.0.1"]}}
    arguments = {**lab.vm_arguments(), "env": {"bosh": {"password": "hash"}}}
    vm = bed.open().create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, vm)
    data = bed.client().getVirtualMachineUserData(virtualmachineid=vm)["virtualmachineuserdata"]["userdata"]
    settings = json.loads(base64.b64decode(data))
    assert settings["agent_id"] == arguments["agent_id"]
    assert settings["env"]["bosh"] == {"password": "hash", "authorized_keys": [KEY]}
    assert (settings["mbus"], settings["ntp"]) == ("nats://127.0.0.1", ["127.0.0.1"])
    assert settings["disks"]["system"] == "/dev/vda"
    assert {"type": "http", "url": "http://127.40.0.1/latest/user-data"} in settings["userdata_sources"]


def test_userdata_that_is_too_long_is_refused_before_anything_is_made(lab: Lab) -> None:
    arguments = {**lab.vm_arguments(), "env": {"long": "x" * 40000}}
    with pytest.raises(InvalidCall, match="32768"):
        lab.cpi.create_vm(**arguments)


def test_a_vm_that_does_not_start_is_removed_and_may_be_repeated(bed: CloudstackBed, lab: Lab) -> None:
    arguments = specified(lab, ephemeral_disk_offering="custom", disk=1024)
    faults.add(bed.datacenter.store, "deployVirtualMachine", "vm-error-state", times=1)
    with pytest.raises(VMCreationFailed) as caught:
        lab.cpi.create_vm(**arguments)
    assert caught.value.retryable
    made(lab, arguments)


def test_a_failed_vm_that_cannot_be_removed_leaves_the_outcome_open(bed: CloudstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "deployVirtualMachine", "vm-error-state", times=1)
    faults.add(bed.datacenter.store, "destroyVirtualMachine", "error", times=1)
    with pytest.raises(OutcomeUnknown, match="could not be removed"):
        lab.cpi.create_vm(**arguments)
    made(lab, arguments)  # the repeat removes the broken one first


def test_a_server_that_is_away_for_a_while_does_not_fail_a_vm(bed: CloudstackBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    faults.add(bed.datacenter.store, "queryAsyncJobResult", "timeout-after-commit", times=2)
    faults.add(bed.datacenter.store, "listNetworks", "throttle", times=2)
    made(lab, arguments)


def test_a_public_address_is_mapped_and_given_back(bed: CloudstackBed, lab: Lab) -> None:
    networks = {**lab.bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": "127.200.0.20"}}
    vm = made(lab, lab.vm_arguments(networks=networks))
    assert row(bed, vm)["publicip"] == "127.200.0.20"
    lab.cpi.delete_vm(vm)
    assert bed.client().listPublicIpAddresses() == {}


def test_an_operators_public_address_is_used_and_kept(bed: CloudstackBed, lab: Lab) -> None:
    client = bed.client()
    network = client.listNetworks(name=default_network(lab.az))["network"][0]["id"]
    theirs = client.associateIpAddress(networkid=network)["ipaddress"]
    networks = {**lab.bed.networks(lab.az, lab.address()), "public": {"type": "vip", "ip": theirs["ipaddress"]}}
    vm = made(lab, lab.vm_arguments(networks=networks))
    other = {**lab.bed.networks(lab.az, lab.address()), "public": networks["public"]}
    with pytest.raises(CpiError, match="another VM"):
        lab.cpi.create_vm(**lab.vm_arguments(networks=other))
    lab.cpi.delete_vm(vm)
    assert client.listPublicIpAddresses(id=theirs["id"])["publicipaddress"][0]["isstaticnat"] is False
    client.disassociateIpAddress(id=theirs["id"])


def test_a_taken_address_is_refused_with_its_holder_before_the_deploy(bed: CloudstackBed, lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    holder = lab.vm(networks=networks)
    faults.add(bed.datacenter.store, "deployVirtualMachine", "error")  # would be another error, if it came so far
    with pytest.raises(VMCreationFailed, match=holder):
        lab.cpi.create_vm(**lab.vm_arguments(networks=networks))


def test_a_public_key_is_registered_once_and_goes_with_its_last_vm(bed: CloudstackBed, lab: Lab) -> None:
    vms = [made(lab, specified(lab, public_key=KEY)) for _ in range(2)]
    (pair,) = lab.cpi.survey("keypair", bed.director_uuid).objects
    assert {row(bed, vm)["keypairs"] for vm in vms} == {pair.name}
    assert set(pair.in_use_by or ()) == set(vms)
    lab.cpi.delete_vm(vms[0])
    (still,) = lab.cpi.survey("keypair", bed.director_uuid).objects
    assert (still.cid, still.in_use_by) == (pair.cid, (vms[1],))
    lab.cpi.delete_vm(vms[1])
    assert lab.cpi.survey("keypair", bed.director_uuid).objects == ()


def test_a_public_key_that_goes_with_its_last_vm_just_before_a_deploy_is_registered_again(
    bed: CloudstackBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, removed = Client.call, []

    def call(client: Client, command: str, **parameters: Any) -> Any:
        if command == "deployVirtualMachine" and not removed:
            removed.append(parameters["keypair"])
            send(client, "deleteSSHKeyPair", name=parameters["keypair"])
        return send(client, command, **parameters)

    monkeypatch.setattr(Client, "call", call)
    vm = made(lab, specified(lab, public_key=KEY))
    (pair,) = lab.cpi.survey("keypair", bed.director_uuid).objects
    assert (removed, pair.in_use_by) == ([pair.name], (vm,))


def test_a_survey_shows_for_every_kind_whether_anything_uses_it(bed: CloudstackBed, lab: Lab) -> None:
    """What it does not show, a cleanup keeps for ever."""
    vm = lab.vm()
    (image,) = lab.cpi.survey("image", bed.director_uuid).objects
    (machine,) = lab.cpi.survey("vm", bed.director_uuid).objects
    assert (image.in_use_by, machine.in_use_by) == ((vm,), ())
    lab.cpi.delete_vm(vm)
    (image,) = lab.cpi.survey("image", bed.director_uuid).objects
    assert image.in_use_by == ()


def test_an_operators_keypair_is_used_and_kept(bed: CloudstackBed, lab: Lab) -> None:
    bed.client().registerSSHKeyPair(name="theirs", publickey=KEY)
    bed.more = {"default_key_name": "theirs"}
    for named in (specified(lab, key_name="theirs"), specified(lab)):
        vm = bed.open().create_vm(**named).cid
        assert row(bed, vm)["keypairs"] == "theirs"
        lab.cpi.delete_vm(vm)
    assert bed.client().listSSHKeyPairs(name="theirs")
    bed.client().deleteSSHKeyPair(name="theirs")


def test_details_and_tags_reach_the_vm(bed: CloudstackBed, lab: Lab) -> None:
    vm = made(lab, specified(lab, details={"cpuOvercommitRatio": "2.0"}, tags={"team": "red"}))
    found = row(bed, vm)
    assert found["details"] == {"cpuOvercommitRatio": "2.0"}
    assert {"red"} == {tag["value"] for tag in found["tags"] if tag["key"] == "team"}


def test_security_groups_of_the_spec_must_exist_and_the_zone_must_have_them(bed: CloudstackBed, lab: Lab) -> None:
    theirs = bed.client().createSecurityGroup(name="theirs")["securitygroup"]["id"]
    vm = made(lab, specified(lab, security_groups=["theirs"]))
    assert [one["id"] for one in row(bed, vm)["securitygroup"]] == [theirs]
    with pytest.raises(CpiError, match="no security group 'missing'"):
        lab.cpi.create_vm(**specified(lab, security_groups=["missing"]))
    bed.set("coterie.security.groups", "false")
    with pytest.raises(InvalidCall, match="SecurityGroup"):
        lab.cpi.create_vm(**specified(lab, security_groups=["theirs"]))
    lab.cpi.delete_vm(vm)
    bed.client().deleteSecurityGroup(id=theirs)


def test_an_address_is_used_again_right_after_its_vm(lab: Lab) -> None:
    networks = lab.bed.networks(lab.az, lab.address())
    for _ in range(3):
        lab.cpi.delete_vm(lab.vm(networks=networks))


def test_words_of_the_other_cpi_for_cloudstack_mean_the_same() -> None:
    theirs = {"compute_offering": "custom", "cpu": 2, "cpu_speed": 2000, "ram": 4096, "affinity_group": "apart"}
    ours = {"compute_offering": "custom", "cpu": 2, "cpu_speed": 2000, "ram_mb": 4096, "affinity_groups": ["apart"]}
    assert read_vm_spec(theirs) == read_vm_spec(ours)
    with pytest.raises(InvalidCall, match="ram is given beside ram_mb"):
        read_vm_spec({**theirs, "ram_mb": 1})


@pytest.mark.parametrize("word", ["lbs", "routes", "affinity_group_type"])
def test_words_that_cannot_be_had_are_refused_with_the_reason(word: str) -> None:
    with pytest.raises(InvalidCall, match=f"cloud_properties.{word} is not supported: ") as caught:
        read_vm_spec({"compute_offering": "tiny", word: ["x"]})
    assert caught.value.remedy
    with pytest.raises(InvalidCall, match="undiscoverable is not supported: "):
        NETWORK.read({"name": "a", "undiscoverable": True}, "cloud_properties")
