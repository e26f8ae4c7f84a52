"""Deployments on the real OpenStack through planner, ledger and conductor: made, changed, lost, repaired and swept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cleanup.yard import Yard
from tests.cpi.drivers.openstack.place import (
    Place,
    clear_images,
    config,
    openstack_cloud,
    openstack_subnet,
    placed,
)
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import group, manifest

from coterie.cpi.contract import KINDS
from coterie.requests import looks
from coterie.requests.operations import abandon

TOY = {"range": "127.21.0.0/16", "gateway": "127.21.0.1", "azs": ["z2"]}
SPREAD = "persistent_disk: 1024, placement: {policy: anti-affinity}"


@pytest.fixture
def place(bed: OpenstackBed, tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path, bed) as made:
        yield made


@pytest.mark.short
def test_a_deployment_lives_changes_and_goes(bed: OpenstackBed, place: Place) -> None:
    text = manifest(group("a", 3, SPREAD, azs="z1"))
    place.deploy(text)
    assert place.spread() == [1, 1, 1]
    assert place.plan(text).changes == ()
    place.deploy(manifest(group("a", 2, SPREAD, azs="z1", stemcell="two")))
    assert place.spread() == [1, 1]
    place.delete(delete_disks=True)
    place.conductor.drain()
    kept = {kind for kind, _ in bed.inventory()}
    assert kept <= {"disk", "image"}  # the disk of the node that was removed is kept
    for disk in place.held("disk"):
        place.cpi().delete_disk(disk.cid)


def test_what_was_given_up_is_swept(bed: OpenstackBed, place: Place) -> None:
    before = bed.inventory()
    placement = f"{SPREAD}, security_groups: [web]"
    place.deploy(manifest(group("a", 2, placement, azs="z1")))
    ours = bed.inventory() - before
    made = {kind for kind, _ in ours}
    assert made >= {"vm", "disk", "image", "server_group", "security_group", "port"}
    abandon(place.ledger, "dep")
    theirs = [(kind, bed.operator.create(kind, "z1")) for kind in KINDS]
    foreign = bed.inventory() - before - ours
    plan = Yard(place).clean()
    assert plan.stopped == (), "every project has a security group `default` without our mark"
    assert bed.inventory() == before | foreign
    for kind, cid in theirs:
        if cid:
            bed.operator.delete(kind, cid)


def test_a_group_deleted_behind_our_back_is_noticed_and_the_deployment_can_go(bed: OpenstackBed, place: Place) -> None:
    place.deploy(manifest(group("a", 2, "placement: {policy: anti-affinity}", azs="z1")))
    (theirs,) = bed.operator.listed("server_group")
    bed.operator.delete("server_group", theirs["id"])
    look = looks.look(place.ledger)
    assert look is not None
    place.wait(look)
    assert place.list_events("group.missing")
    place.delete()
    assert place.nodes() == {}


def test_a_vm_destroyed_behind_our_back_comes_back_with_its_address(bed: OpenstackBed, place: Place) -> None:
    text = manifest(group("a", 2, SPREAD, azs="z1"))
    place.deploy(text)
    gone = place.vms()["a/0"]
    addresses = {one["fixed_ips"][0]["ip_address"] for one in bed.operator.listed("port")}
    bed.operator.delete("vm", gone)
    look = looks.look(place.ledger)
    assert look is not None
    place.wait(look)
    place.deploy(text)
    assert len(set(place.vms().values()) - {gone}) == 2
    assert {one["fixed_ips"][0]["ip_address"] for one in bed.operator.listed("port")} == addresses
    assert place.spread() == [1, 1]


def test_one_deployment_over_two_openstack_clouds(bed: OpenstackBed, place: Place, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    other = OpenstackBed(tmp_path / "second")
    before = other.inventory()
    place.config = config(
        bed,
        clouds=[openstack_cloud("lab", bed), openstack_cloud("abroad", other)],
        azs=[
            {"name": "z1", "cloud": "lab", "cloud_properties": {"availability_zone": "z1"}},
            {"name": "z2", "cloud": "abroad", "cloud_properties": {"availability_zone": "z2"}},
        ],
        networks=[{"name": "net", "subnets": [openstack_subnet(bed, "z1"), _second_range(other, "z2")]}],
    )
    place.deploy(manifest(group("a", 4, SPREAD.replace("anti", "soft-anti"))))
    for one in (bed, other):
        assert len(one.operator.listed("vm")) == 2
        assert len(one.operator.listed("server_group")) == 1
    place.delete(delete_disks=True)
    clear_images(place, other)
    assert other.inventory() == before
    other.close()


def _second_range(bed: OpenstackBed, az: str) -> dict[str, object]:
    """The same range in another project would be the planner's to refuse: one network has one owner per address."""
    pools = [{"start": "10.21.128.1", "end": "10.21.255.250"}]
    fields = {"network_id": bed.tenant.network, "ip_version": 4, "cidr": "10.21.0.0/16", "allocation_pools": pools}
    bed.tenant.call("POST", "neutron", "/subnets", {"subnet": {**fields, "enable_dhcp": False}})
    bed.tenant.changed = True
    found = json.dumps(openstack_subnet(bed, az)).replace("10.20.", "10.21.")
    return dict(json.loads(found))


def test_one_deployment_over_openstack_and_the_sandbox(bed: OpenstackBed, place: Place) -> None:
    place.config = config(
        bed,
        clouds=[openstack_cloud("lab", bed), {"name": "toy", "driver": "sandbox", "properties": {"settle_s": 0.1}}],
        azs=[
            {"name": "z1", "cloud": "lab", "cloud_properties": bed.vm_properties("z1")},
            {
                "name": "z2",
                "cloud": "toy",
                "cloud_properties": {"zone": "z2", "cpu": 1, "ram_mb": 512, "disk_mb": 1024},
            },
        ],
        vm_types=[{"name": "small", "cloud_properties": {}}],
        networks=[{"name": "net", "subnets": [openstack_subnet(bed, "z1"), TOY]}],
    )
    place.deploy(manifest(group("a", 4, SPREAD)))
    assert len(bed.operator.listed("vm")) == 2
    assert len(place.nodes()) == 4


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(bed: OpenstackBed, place: Place) -> None:
    prove_recovery(place, manifest(group("a", 3, SPREAD, azs="z1"), group("plain", 1, azs="z1")))
    place.delete(delete_disks=True)
