"""The whole of Coterie on the sandbox's EC2: deployed, given up and swept; refused at plan time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.contract import Mark
from coterie.errors import CoterieError
from coterie.ids import Ids
from coterie.ledger.rows import pins
from coterie.requests.audit import placement_audit
from coterie.requests.operations import abandon
from coterie.sandbox import server_groups
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.quotas import set_quota
from tests.cleanup.yard import Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import Site, group, manifest, site

STRICT = "persistent_disk: 1024, placement: {policy: anti-affinity}"
SOFT = "placement: {policy: soft-anti-affinity}"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AwsBed]:
    (tmp_path / "cloud").mkdir()
    made = AwsBed(tmp_path / "cloud")
    yield made
    made.close()


@pytest.fixture
def here(bed: AwsBed, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path / "site") as made:
        made.config = config(bed)
        yield made
    ledger.close()


def config(bed: AwsBed, **more: Any) -> str:
    """Zones z1 and z2 of EC2, and s1 of a sandbox beside it."""
    properties = bed.properties() | more
    subnets = [
        {
            "range": f"127.4{n}.0.0/16",
            "gateway": f"127.4{n}.0.1",
            "azs": [f"z{n}"],
            "cloud_properties": {"subnet": f"subnet-z{n}"},
        }
        for n in (1, 2)
    ]
    subnets.append({"range": "127.50.0.0/16", "gateway": "127.50.0.1", "azs": ["s1"]})
    return json.dumps(
        {
            "clouds": [
                {"name": "lab", "driver": "aws", "properties": properties},
                {"name": "other", "driver": "sandbox", "properties": {"settle_s": 0.1}},
            ],
            "azs": [
                {"name": "z1", "cloud": "lab", "cloud_properties": {"availability_zone": "z1"}},
                {"name": "z2", "cloud": "lab", "cloud_properties": {"availability_zone": "z2"}},
                {"name": "s1", "cloud": "other", "cloud_properties": {"zone": "z1"}},
            ],
            "vm_types": [
                {"name": "small", "cloud_properties": {"instance_type": "t3.nano"}},
                {"name": "box", "cloud_properties": {"cpu": 1, "ram_mb": 512, "disk_mb": 1024}},
            ],
            "networks": [{"name": "net", "subnets": subnets}],
        }
    )


def test_a_deployment_lives_changes_and_goes_beside_another_cloud(bed: AwsBed, here: Site) -> None:
    before = bed.inventory()
    beside = group("b", 1, azs="s1").replace("vm_type: small", "vm_type: box")
    here.deploy(manifest(group("a", 3, STRICT), beside))
    assert here.plan(manifest(group("a", 3, STRICT), beside)).changes == ()
    here.deploy(manifest(group("a", 1, STRICT, stemcell="two"), beside))
    with here.ledger.read() as tx:
        assert pins.get(tx, "lab") == "account 123456789012 in region eu-central-1"
    here.delete(delete_disks=True)
    here.conductor.drain()
    assert {kind for kind, _ in bed.inventory() - before} <= {"disk"}  # of nodes that were removed before: kept


def test_what_was_given_up_is_swept_and_what_looks_like_it_stays(bed: AwsBed, here: Site) -> None:
    other = "5eed5eed-0000-4000-8000-000000000000"
    theirs = bed.open(other).create_disk(1024, {}, mark=Mark(other, Ids().intent()))
    bed.operator.create("security_group", "z1")
    before = bed.inventory()
    here.deploy(manifest(group("a", 2, STRICT, azs="z1")))
    abandon(here.ledger, "dep")
    Yard(here).clean()
    assert bed.inventory() == before
    assert bed.open(other).has_disk(theirs)


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(here: Site) -> None:
    prove_recovery(here, manifest(group("a", 2, STRICT, azs="z1"), group("plain", 1, azs="z1")))


def test_the_audit_judges_by_partitions(bed: AwsBed, here: Site) -> None:
    here.deploy(manifest(group("a", 2, SOFT, azs="z1")))
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True and "2 partitions" in found["why"]


def test_an_eighth_strict_node_in_a_zone_is_refused_at_plan_time(bed: AwsBed, here: Site) -> None:
    before = bed.inventory()
    with pytest.raises(CoterieError, match="8 nodes would be in z1, but cloud lab takes 7 members"):
        here.plan(manifest(group("a", 8, STRICT, azs="z1")))
    assert here.plan(manifest(group("a", 8, SOFT, azs="z1"))).changes
    assert bed.inventory() == before


def test_an_exhausted_quota_is_refused_at_plan_time(bed: AwsBed, here: Site) -> None:
    bed.open().has_vm("i-0")
    set_quota(bed.datacenter, "kit", "cpu", 1)
    with pytest.raises(CoterieError, match="quota of 1 instances is exceeded: 0 used, 2 more needed"):
        here.plan(manifest(group("a", 2, azs="z1")))


def test_nodes_live_on_a_dedicated_host_and_nowhere_else(bed: AwsBed, here: Site) -> None:
    named = next(one.name for one in list_hosts(bed.account) if one.zone == "z1")
    server_groups.create_server_group(bed.account, name="licensed", policy="host-affinity", hosts=[named])
    here.config = config(bed, policies=["host-affinity"])
    tied = "placement: {policy: host-affinity, server_group: licensed, adopt: true}"
    here.deploy(manifest(group("a", 2, tied, azs="z1")))
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True and "2 nodes on 1 of 1 named hosts" in found["why"]
    with pytest.raises(CoterieError, match="dedicated host"):
        here.plan(manifest(group("a", 2, "placement: {policy: host-affinity}", azs="z1")))
