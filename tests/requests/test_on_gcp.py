"""The whole of Coterie on the sandbox's Compute Engine: alone and beside two other clouds; given up and swept; refused
at plan time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.aws_bed import AwsBed
from peers.gcp_bed import GcpBed

from coterie.cpi.contract import Mark
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger.rows import pins
from coterie.requests.audit import placement_audit
from coterie.requests.operations import abandon
from coterie.sandbox.quotas import set_quota
from tests.cleanup.yard import Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import Site, group, manifest, site

STRICT = "persistent_disk: 1024, placement: {policy: anti-affinity}"
SOFT = "persistent_disk: 1024, placement: {policy: soft-anti-affinity}"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[GcpBed]:
    (tmp_path / "cloud").mkdir()
    made = GcpBed(tmp_path / "cloud")
    yield made
    made.close()


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[AwsBed]:
    (tmp_path / "aws").mkdir()
    made = AwsBed(tmp_path / "aws")
    yield made
    made.close()


@pytest.fixture
def here(bed: GcpBed, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path / "site") as made:
        made.config = config(bed)
        yield made
    ledger.close()


def config(bed: GcpBed, aws: AwsBed | None = None, **more: Any) -> str:
    """Zones z1 and z2 of GCP, s1 of a sandbox, and a1 of AWS where there is one."""
    clouds = [
        {"name": "lab", "driver": "gcp", "properties": {**bed.properties(), **more}},
        {"name": "other", "driver": "sandbox", "properties": {"settle_s": 0.1}},
    ]
    azs = [
        {"name": "z1", "cloud": "lab", "cloud_properties": {"zone": "z1"}},
        {"name": "z2", "cloud": "lab", "cloud_properties": {"zone": "z2"}},
        {"name": "s1", "cloud": "other", "cloud_properties": {"zone": "z1"}},
    ]
    subnets: list[dict[str, Any]] = [
        {"range": "127.40.0.0/16", "gateway": "127.40.0.1", "azs": ["z1", "z2"]},
        {"range": "127.50.0.0/16", "gateway": "127.50.0.1", "azs": ["s1"]},
    ]
    if aws:
        clouds.append({"name": "aws", "driver": "aws", "properties": aws.properties()})
        azs.append({"name": "a1", "cloud": "aws", "cloud_properties": {"availability_zone": "z1"}})
        subnet = {"cloud_properties": {"subnet": "subnet-z1"}}
        subnets.append({"range": "127.60.0.0/16", "gateway": "127.60.0.1", "azs": ["a1"], **subnet})
    return json.dumps(
        {
            "clouds": clouds,
            "azs": azs,
            "vm_types": [
                {"name": "small", "cloud_properties": {"machine_type": "f1-micro"}},
                {"name": "box", "cloud_properties": {"cpu": 1, "ram_mb": 512, "disk_mb": 1024}},
                {"name": "nano", "cloud_properties": {"instance_type": "t3.nano"}},
            ],
            "networks": [{"name": "net", "subnets": subnets}],
        }
    )


def test_a_deployment_lives_changes_and_goes(bed: GcpBed, here: Site) -> None:
    before = bed.inventory()
    here.deploy(manifest(group("a", 4, STRICT)))
    assert here.plan(manifest(group("a", 4, STRICT))).changes == ()
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True and "availability domain" in found["why"]
    here.deploy(manifest(group("a", 1, STRICT, stemcell="two")))
    with here.ledger.read() as tx:
        assert pins.get(tx, "lab") == "project 4242424242 in lab1"
    here.delete(delete_disks=True)
    here.conductor.drain()
    assert {kind for kind, _ in bed.inventory() - before} <= {"disk"}  # of nodes that were removed before: kept


def test_one_deployment_on_three_clouds(bed: GcpBed, aws: AwsBed, here: Site) -> None:
    here.config = config(bed, aws)
    before, theirs = bed.inventory(), aws.inventory()
    wanted = manifest(
        group("a", 2, STRICT, azs="z1"),
        group("b", 2, STRICT, azs="a1").replace("vm_type: small", "vm_type: nano"),
        group("c", 2, SOFT, azs="s1").replace("vm_type: small", "vm_type: box"),
    )
    here.deploy(wanted)
    assert sum(kind == "vm" for kind, _ in bed.inventory()) == 2
    assert sum(kind == "vm" for kind, _ in aws.inventory()) == 2
    assert here.plan(wanted).changes == ()
    here.delete(delete_disks=True)
    here.conductor.drain()
    assert {kind for kind, _ in bed.inventory() - before} <= {"image"}
    assert {kind for kind, _ in aws.inventory() - theirs} <= {"image"}


def test_what_was_given_up_is_swept_and_what_looks_like_it_stays(bed: GcpBed, here: Site) -> None:
    other = "5eed5eed-0000-4000-8000-000000000000"
    theirs = bed.open(other).create_disk(1024, {}, mark=Mark(other, Ids().intent()))
    bed.operator.create("security_group", "z1")
    bed.operator.create("server_group", "z1")
    before = bed.inventory()
    here.deploy(manifest(group("a", 2, STRICT, azs="z1")))
    abandon(here.ledger, "dep")
    Yard(here).clean()
    assert bed.inventory() == before
    assert bed.open(other).has_disk(theirs)


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(here: Site) -> None:
    prove_recovery(here, manifest(group("a", 2, STRICT, azs="z1"), group("plain", 1, azs="z1")))


def test_a_fifth_strict_node_in_a_zone_of_four_domains_is_refused_at_plan_time(bed: GcpBed, here: Site) -> None:
    before = bed.inventory()
    with pytest.raises(CoterieError, match="5 nodes would be in z1, but cloud lab takes 4 members"):
        here.plan(manifest(group("a", 5, STRICT, azs="z1")))
    assert here.plan(manifest(group("a", 5, SOFT, azs="z1"))).changes
    assert bed.inventory() == before


def test_an_exhausted_quota_is_refused_at_plan_time(bed: GcpBed, here: Site) -> None:
    set_quota(bed.peer.datacenter, "kit", "instances", 1)
    with pytest.raises(CoterieError, match="quota of 1 instances is exceeded: 0 used, 2 more needed"):
        here.plan(manifest(group("a", 2, azs="z1")))


def test_nodes_live_on_sole_tenant_nodes_and_nowhere_else(bed: GcpBed, here: Site) -> None:
    bed.operator.create_nodes("licensed", "z1", 1)
    here.config = config(bed, policies=["host-affinity"])
    tied = "placement: {policy: host-affinity, server_group: licensed, adopt: true}"
    here.deploy(manifest(group("a", 2, tied, azs="z1")))
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True and "2 nodes on 1 of 1 named hosts" in found["why"]
