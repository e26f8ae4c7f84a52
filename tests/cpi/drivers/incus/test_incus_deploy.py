"""Deployments on the real cluster through planner, ledger and conductor: over three clouds, through a crash,
and from a lost ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.cloudstack_bed import CloudstackBed
from peers.incus_bed import CLUSTER, IncusBed
from tests.cpi.drivers.incus.place import Place, config, placed, subnet
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import group, manifest

from coterie.ledger.rows import stemcells
from coterie.requests import looks, start

HEALTH = "health: {kind: http, port: 80, path: /health}"
TOY = {"range": "127.21.0.0/16", "gateway": "127.21.0.1", "azs": ["z2"]}
STACK = {"range": "127.40.0.0/16", "gateway": "127.40.0.1", "azs": ["z3"]}
STRICT = f"persistent_disk: 64, placement: {{policy: anti-affinity}}, {HEALTH}"


@pytest.fixture
def place(bed: IncusBed, tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path, bed) as made:
        yield made


def test_a_deployment_is_healthy_by_http_changes_and_goes(bed: IncusBed, place: Place) -> None:
    text = manifest(group("a", 3, STRICT))
    place.deploy(text)
    assert place.hosts() == ["inc1", "inc2", "inc3"]
    assert place.plan(text).changes == ()
    place.deploy(manifest(group("a", 3, STRICT, stemcell="two")))
    assert place.hosts() == ["inc1", "inc2", "inc3"]
    place.delete(delete_disks=True)


def test_a_member_crashes_during_a_deployment_and_the_next_one_ends_it(bed: IncusBed, place: Place) -> None:
    """The machines of the member are dead, not gone; once it is back they are made anew with their disks."""
    text = manifest(group("a", 3, STRICT))
    task = start.deploy(place.ledger, place.request(text), None, "test")
    give_up = time.monotonic() + 60
    while not bed.operator.rows("/1.0/instances") and time.monotonic() < give_up:
        time.sleep(0.02)
    CLUSTER.crash("inc3")
    try:
        place.wait(task, "failed")
        disks = {cid for kind, cid in bed.inventory() if kind == "disk"}
    finally:
        CLUSTER.rejoin("inc3")
    look = looks.look(place.ledger)
    assert look is not None
    place.wait(look)
    place.deploy(text)
    assert place.hosts() == ["inc1", "inc2", "inc3"]
    assert disks <= {cid for kind, cid in bed.inventory() if kind == "disk"}
    assert len([cid for kind, cid in bed.inventory() if kind == "vm"]) == 3


def test_a_machine_that_was_destroyed_comes_back_with_its_data(bed: IncusBed, place: Place) -> None:
    text = manifest(group("a", 2, STRICT))
    place.deploy(text)
    gone = str(place.nodes()["a/0"].vm_cid)
    home = bed.operator.locations(gone)
    bed.operator.delete("vm", gone)
    look = looks.look(place.ledger)
    assert look is not None
    place.wait(look)
    place.deploy(text)
    again = str(place.nodes()["a/0"].vm_cid)
    assert again != gone
    assert bed.operator.locations(again) == home, "its disk is there"
    assert place.cpi().get_disks(again)


def test_a_machine_that_was_destroyed_is_noticed_while_another_member_is_silent(bed: IncusBed, place: Place) -> None:
    """The cloud's list is incomplete for as long as that member is away."""
    text = manifest(group("a", 2, STRICT))
    place.deploy(text)
    homes = {name: bed.operator.locations(str(node.vm_cid))[0] for name, node in place.nodes().items()}
    gone, silent = sorted(homes, key=lambda name: homes[name])  # the first member is asked about all others
    bed.operator.delete("vm", str(place.nodes()[gone].vm_cid))
    CLUSTER.crash(homes[silent])
    try:
        look = looks.look(place.ledger)
        assert look is not None
        place.wait(look)
        assert place.nodes()[gone].state == "missing"
        assert place.nodes()[silent].state in ("up", "failing"), "only its health check tells of it"
    finally:
        CLUSTER.rejoin(homes[silent])
    place.wait(looks.look(place.ledger) or 0)  # its machines do not start by themselves
    place.deploy(text)
    assert len(bed.operator.locations()) == 2


def test_one_deployment_over_incus_the_sandbox_and_cloudstack(bed: IncusBed, place: Place, tmp_path: Path) -> None:
    (tmp_path / "cloudstack").mkdir()
    other = CloudstackBed(tmp_path / "cloudstack")
    (tmp_path / "site" / "stemcells" / "plain").write_bytes(b"image")
    with place.ledger.write() as tx:
        stemcells.add(tx, "plain", "1", "plain", "1", other.image()[1], [])
    here = other.networks(other.azs[0], None)["default"]["cloud_properties"]
    toy = {"zone": "z2", "cpu": 1, "ram_mb": 512, "disk_mb": 1024}
    place.config = config(
        bed,
        clouds=[
            {"name": "lab", "driver": "incus", "properties": bed.properties()},
            {"name": "toy", "driver": "sandbox", "properties": {"settle_s": 0.1}},
            {"name": "stack", "driver": "cloudstack", "properties": other.properties()},
        ],
        azs=[
            {"name": "z1", "cloud": "lab", "cloud_properties": {"cluster_group": "z1", "cpu": 1, "memory": 64}},
            {"name": "z2", "cloud": "toy", "cloud_properties": toy},
            {"name": "z3", "cloud": "stack", "cloud_properties": other.vm_properties(other.azs[0])},
        ],
        vm_types=[{"name": "small", "cloud_properties": {}}],
        networks=[{"name": "net", "subnets": [subnet("z1"), TOY, {**STACK, "cloud_properties": here}]}],
    )
    groups = group("a", 2, STRICT, azs="z1") + group("b", 4, azs="z2, z3", stemcell="plain")
    text = manifest(groups).replace("stemcells:\n", "stemcells:\n- {alias: plain, name: plain, version: '1'}\n")
    try:
        place.deploy(text)
        assert len(bed.operator.locations()) == 2
        assert len([one for one in other.inventory() if one[0] == "vm"]) == 2
        assert place.plan(text).changes == ()
        place.delete(delete_disks=True)
        assert bed.operator.locations() == []
    finally:
        other.close()


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(bed: IncusBed, place: Place) -> None:
    prove_recovery(place, manifest(group("a", 2, STRICT), group("plain", 1)))
    place.delete(delete_disks=True)
