"""The whole of Coterie on an emulated CloudStack: deployed, given up and swept; nothing of ours is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Mark
from coterie.errors import Conflict
from coterie.ids import Ids, director_prefix
from coterie.ledger.rows import pins
from coterie.requests import start
from coterie.requests.audit import placement_audit
from coterie.requests.enroll import Enrollment, enroll
from coterie.requests.operations import abandon, destroy
from coterie.sandbox.fronts.cloudstack.furnish import default_network
from tests.cleanup.yard import Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.lost_ledger import prove_recovery
from tests.requests.site import Site, group, manifest, site

SPREAD = "persistent_disk: 1024, placement: {policy: anti-affinity}"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[CloudstackBed]:
    (tmp_path / "cloud").mkdir()
    made = CloudstackBed(tmp_path / "cloud")
    yield made
    made.close()


@pytest.fixture
def here(bed: CloudstackBed, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "site").mkdir()
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path / "site") as made:
        made.config = config(bed)
        yield made
    ledger.close()


def config(bed: CloudstackBed) -> str:
    az = bed.azs[0]
    subnet = {"range": "127.40.0.0/16", "gateway": "127.40.0.1", "azs": ["z1"]}
    return json.dumps(
        {
            "clouds": [{"name": "lab", "driver": "cloudstack", "properties": bed.properties()}],
            "azs": [{"name": "z1", "cloud": "lab", "cloud_properties": {"zone": az}}],
            "vm_types": [{"name": "small", "cloud_properties": {"compute_offering": "tiny"}}],
            "networks": [
                {"name": "net", "subnets": [{**subnet, "cloud_properties": {"name": default_network(az)}}]},
            ],
        }
    )


def test_a_deployment_lives_changes_and_goes(bed: CloudstackBed, here: Site) -> None:
    before = bed.inventory()
    here.deploy(manifest(group("a", 2, SPREAD, azs="z1")))
    assert here.plan(manifest(group("a", 2, SPREAD, azs="z1"))).changes == ()
    here.deploy(manifest(group("a", 1, SPREAD, azs="z1", stemcell="two")))
    here.delete(delete_disks=True)
    here.conductor.drain()
    assert {kind for kind, _ in bed.inventory() - before} <= {"disk"}  # that of the node that was removed is kept


def test_a_lost_ledger_is_recovered_and_nothing_is_to_change(here: Site) -> None:
    prove_recovery(here, manifest(group("a", 2, SPREAD, azs="z1"), group("plain", 1, azs="z1")))
    with here.ledger.read() as tx:
        assert (pins.get(tx, "lab") or "").startswith("account ")


def test_what_was_given_up_is_swept(bed: CloudstackBed, here: Site) -> None:
    before = bed.inventory()
    here.deploy(manifest(group("a", 2, SPREAD, azs="z1")))
    abandon(here.ledger, "dep")
    Yard(here).clean()
    assert bed.inventory() == before


def test_a_machine_of_another_director_is_not_enrolled_and_not_destroyed(bed: CloudstackBed, here: Site) -> None:
    """However it is told: by its tag, or by its name while there is none yet."""
    start.set_cloud_config(here.ledger, here.config, "cloud.yml")
    other = str(uuid4())
    lab = Lab(bed)
    made = bed.open(other).create_vm(**lab.vm_arguments(mark=Mark(other, Ids().intent()))).cid
    client = bed.client()
    with pytest.raises(Conflict, match=f"mark of the Director {other}"):
        enroll(here.ledger, Enrollment("lab", made), "test")
    client.deleteTags(resourceids=made, resourcetype="UserVm")
    with pytest.raises(Conflict, match=f"mark of the Director {director_prefix(other)}"):
        enroll(here.ledger, Enrollment("lab", made), "test")
    theirs = bed.operator.create_vm("neighbour", lab.az)
    uuid = enroll(here.ledger, Enrollment("lab", theirs), "test")
    tag = {"tags[0].key": "coterie-director", "tags[0].value": other}
    client.createTags(resourceids=theirs, resourcetype="UserVm", **tag)
    task = destroy(here.ledger, uuid, "test")
    here.wait(task, "failed")
    assert f"mark of the Director {other}" in here.story(task)
    assert bed.operator.exists("vm", theirs)
    bed.operator.delete("vm", theirs)
    bed.open(other).delete_vm(made)
    lab.close()


def test_the_audit_says_why_nothing_is_known_where_hosts_are_hidden(bed: CloudstackBed, here: Site) -> None:
    bed.account = "user"
    here.config = config(bed)
    here.deploy(manifest(group("a", 2, SPREAD, azs="z1")))
    (found,) = placement_audit(here.ledger, "dep")["groups"]
    assert (found["holds"], found["state"]) == (None, "live")
    assert "lab does not show the hosts" in found["why"]
    assert "driver cloudstack" in found["remedy"]
