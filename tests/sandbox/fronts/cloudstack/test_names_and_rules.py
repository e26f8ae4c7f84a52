"""Keypairs, tags and public addresses: what must be unique, what conflicts."""

from __future__ import annotations

from functools import partial

from tests.sandbox.fronts.cloudstack.rig import Rig, refused

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"


def test_a_keypairs_name_and_key_are_unique(rig: Rig) -> None:
    rig.admin.registerSSHKeyPair(name="one", publickey=KEY)
    with refused(431):
        rig.admin.registerSSHKeyPair(name="one", publickey=f"{KEY}B")
    with refused(431):
        rig.admin.registerSSHKeyPair(name="two", publickey=f"{KEY} with-a-comment")
    rig.user.registerSSHKeyPair(name="one", publickey=KEY)
    assert rig.admin.createSSHKeyPair(name="made")["keypair"]["privatekey"]
    rig.deploy(keypair="made")
    rig.admin.deleteSSHKeyPair(name="one")
    with refused(431):
        rig.deploy(keypair="one")


def test_a_tag_is_set_once_and_is_not_empty(rig: Rig) -> None:
    volume = rig.volume()["id"]
    tags = [{"key": "a", "value": "b"}]
    rig.admin.createTags(resourceids=volume, resourcetype="Volume", tags=tags)
    with refused(530):
        rig.admin.createTags(resourceids=volume, resourcetype="Volume", tags=[{"key": "a", "value": "c"}])
    with refused(431):
        rig.admin.createTags(resourceids=volume, resourcetype="Volume", tags=[{"key": "e", "value": ""}])
    assert [row["id"] for row in rig.admin.listVolumes(tags=tags)["volume"]] == [volume]
    assert rig.admin.listVolumes(tags=[{"key": "a", "value": "other"}]) == {}
    rig.admin.deleteTags(resourceids=volume, resourcetype="Volume", tags=[{"key": "a"}])
    assert rig.admin.listTags() == {}


def test_every_taggable_kind_is_tagged(rig: Rig) -> None:
    network = rig.network()
    address = rig.admin.associateIpAddress(networkid=network)["ipaddress"]["id"]
    security_group = rig.admin.createSecurityGroup(name="web")["securitygroup"]["id"]
    vm, volume = rig.deploy()["id"], rig.volume()["id"]
    rig.admin.attachVolume(id=volume, virtualmachineid=vm)
    snapshot = rig.admin.createSnapshot(volumeid=volume)["snapshot"]["id"]
    kinds = {
        "Volume": (volume, rig.admin.listVolumes, "volume"),
        "Snapshot": (snapshot, rig.admin.listSnapshots, "snapshot"),
        "Template": (rig.template(), partial(rig.admin.listTemplates, templatefilter="self"), "template"),
        "UserVm": (vm, rig.admin.listVirtualMachines, "virtualmachine"),
        "Network": (network, rig.admin.listNetworks, "network"),
        "PublicIpAddress": (address, rig.admin.listPublicIpAddresses, "publicipaddress"),
        "SecurityGroup": (security_group, rig.admin.listSecurityGroups, "securitygroup"),
    }
    for kind, (wanted, listing, key) in kinds.items():
        rig.admin.createTags(resourceids=wanted, resourcetype=kind, tags=[{"key": "a", "value": "b"}])
        assert listing(id=wanted)[key][0]["tags"][0]["value"] == "b", kind


def test_static_nat_maps_one_address_to_one_vm(rig: Rig) -> None:
    network = rig.network()
    first, second = (rig.admin.associateIpAddress(networkid=network)["ipaddress"]["id"] for _ in range(2))
    vm, other = rig.deploy(), rig.deploy()
    rig.admin.enableStaticNat(ipaddressid=first, virtualmachineid=vm["id"])
    with refused(537):
        rig.admin.enableStaticNat(ipaddressid=first, virtualmachineid=other["id"])
    with refused(431):
        rig.admin.enableStaticNat(ipaddressid=second, virtualmachineid=vm["id"])
    found = rig.vm(vm["id"])
    assert found and found["publicipid"] == first
    rig.admin.disableStaticNat(ipaddressid=first)
    rig.admin.enableStaticNat(ipaddressid=first, virtualmachineid=other["id"])
    rig.admin.destroyVirtualMachine(id=other["id"], expunge=True)
    assert rig.admin.listPublicIpAddresses(id=first)["publicipaddress"][0]["isstaticnat"] is False


def test_an_address_that_is_taken_cannot_be_taken_again(rig: Rig) -> None:
    address = rig.admin.associateIpAddress(networkid=rig.network())["ipaddress"]
    with refused(533):
        rig.user.associateIpAddress(networkid=rig.network(rig.user), ipaddress=address["ipaddress"])
    rig.admin.disassociateIpAddress(id=address["id"])
    rig.user.associateIpAddress(networkid=rig.network(rig.user), ipaddress=address["ipaddress"])
