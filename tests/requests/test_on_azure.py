"""The whole of Coterie on the simulated Azure: in a region, in zones and beside another cloud; given up and swept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.azure_bed import AzureBed

from coterie.errors import CoterieError
from coterie.ledger.rows import pins
from coterie.requests.audit import placement_audit
from coterie.requests.operations import abandon
from tests.cleanup.yard import Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import Site, group, manifest, site

STRICT = "persistent_disk: 1024, placement: {policy: anti-affinity}"
SPREAD = "persistent_disk: 1024, placement: {policy: soft-anti-affinity}"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AzureBed]:
    (tmp_path / "cloud").mkdir()
    made = AzureBed(tmp_path / "cloud")
    yield made
    made.close()


@pytest.fixture
def here(bed: AzureBed, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path / "site") as made:
        made.config = json.dumps(config(bed, tmp_path))
        yield made
    ledger.close()


def config(bed: AzureBed, folder: Path) -> dict[str, Any]:
    subnet = {"range": "127.40.0.0/16", "gateway": "127.40.0.1", "azs": ["z1", "one", "two"]}
    other = {"range": "127.50.0.0/16", "gateway": "127.50.0.1", "azs": ["away"]}
    away = {"name": "away", "driver": "sandbox", "properties": {"state": str(folder / "away.db")}}
    zones = [
        {"name": name, "cloud": "lab", "cloud_properties": {"availability_zone": zone}}
        for name, zone in (("one", "1"), ("two", "2"))
    ]
    return {
        "clouds": [{"name": "lab", "driver": "azure", "properties": bed.peer.properties()}, away],
        "azs": [
            {"name": "z1", "cloud": "lab"},
            *zones,
            {"name": "away", "cloud": "away", "cloud_properties": {"zone": "z1"}},
        ],
        "vm_types": [
            {"name": "small", "cloud_properties": {"instance_type": "Standard_B1s"}},
            {"name": "tiny", "cloud_properties": {"cpu": 1, "ram_mb": 512, "disk_mb": 1024}},
        ],
        "networks": [{"name": "net", "subnets": [subnet, other]}],
    }


def kinds(bed: AzureBed) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, _ in bed.inventory():
        found[kind] = found.get(kind, 0) + 1
    return found


def test_a_deployment_lives_changes_and_goes(bed: AzureBed, here: Site) -> None:
    here.deploy(manifest(group("a", 3, STRICT, azs="z1"), group("plain", 2, azs="z1")))
    assert kinds(bed)["server_group"] == 1
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True
    assert found["domain_word"] == "fault domain" and len(found["domains"]) == 3
    assert sorted(node for nodes in found["update_domains"].values() for node in nodes) == ["a/0", "a/1", "a/2"]
    assert here.plan(manifest(group("a", 3, STRICT, azs="z1"), group("plain", 2, azs="z1"))).changes == ()
    here.deploy(manifest(group("a", 1, STRICT, azs="z1", stemcell="two")))
    here.delete(delete_disks=True)
    here.conductor.drain()
    assert set(kinds(bed)) <= {"disk"}  # that of the nodes that were removed is kept


def test_zones_spread_without_a_set(bed: AzureBed, here: Site) -> None:
    here.deploy(manifest(group("a", 4, "persistent_disk: 1024", azs="one, two")))
    vms = list(bed.peer.front.shelf.every("Microsoft.Compute/virtualMachines"))
    assert sorted(vm.body["zones"][0] for vm in vms) == ["1", "1", "2", "2"]
    assert "server_group" not in kinds(bed)


def test_more_members_than_fault_domains_are_refused_by_the_plan(bed: AzureBed, here: Site) -> None:
    with pytest.raises(CoterieError) as caught:
        here.plan(manifest(group("a", 4, STRICT, azs="z1")))
    assert "3" in f"{caught.value} {caught.value.why}"


def test_two_clouds_in_one_deployment(bed: AzureBed, here: Site) -> None:
    away = group("b", 2, SPREAD, azs="away").replace("vm_type: small", "vm_type: tiny")
    here.deploy(manifest(group("a", 2, SPREAD, azs="z1"), away))
    assert kinds(bed)["vm"] == 2
    here.delete(delete_disks=True)
    assert "vm" not in kinds(bed)


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(here: Site) -> None:
    prove_recovery(here, manifest(group("a", 2, SPREAD, azs="z1"), group("plain", 1, azs="z1")))
    with here.ledger.read() as tx:
        assert (pins.get(tx, "lab") or "").startswith("/subscriptions/")


def test_what_was_given_up_is_swept(bed: AzureBed, here: Site) -> None:
    before = bed.inventory()
    here.deploy(manifest(group("a", 2, SPREAD, azs="z1")))
    abandon(here.ledger, "dep")
    Yard(here).clean()
    assert bed.inventory() == before


def test_living_vms_move_between_scale_sets_and_span_zones(bed: AzureBed, here: Site) -> None:
    """In place: no VM is made anew, and none goes with the set that it leaves."""
    given = json.loads(here.config)
    more = {"spread": "scale-set", "scale_set_zones": ["1", "2"], "settle_s": 0.2}
    given["clouds"][0]["properties"] |= more
    here.config = json.dumps(given)
    spread = "persistent_disk: 1024, placement: {policy: soft-anti-affinity, server_group: NAME}"
    here.deploy(manifest(group("a", 4, spread.replace("NAME", "first"), azs="one, two")))
    before = {cid for kind, cid in bed.inventory() if kind == "vm"}
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["holds"] is True and found["domain_word"] == "zone", found
    moved = manifest(group("a", 4, spread.replace("NAME", "second"), azs="one, two"))
    reasons = [change.reason for change in here.plan(moved).changes if change.kind == "node"]
    assert len(reasons) == 4 and all("in place" in reason for reason in reasons), reasons
    here.deploy(moved)
    assert {cid for kind, cid in bed.inventory() if kind == "vm"} == before
    assert kinds(bed)["server_group"] == 1
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert found["name"] == "second" and len(found["domains"]) == 2
    plain = manifest(group("a", 4, "persistent_disk: 1024", azs="one, two"))
    here.deploy(plain)
    assert {cid for kind, cid in bed.inventory() if kind == "vm"} == before
    assert "server_group" not in kinds(bed)
    here.delete(delete_disks=True)


def test_a_group_in_zones_is_refused_by_the_plan_where_groups_are_availability_sets(bed: AzureBed, here: Site) -> None:
    before = bed.inventory()
    with pytest.raises(CoterieError) as caught:
        here.plan(manifest(group("a", 2, SPREAD, azs="one, two")))
    assert "exclude each other" in f"{caught.value} {caught.value.why}"
    assert bed.inventory() == before
