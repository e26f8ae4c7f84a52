"""A conductor that has no more rights in the database than it needs does all that a vSphere cloud asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.vsphere_bed import shared
from tests.cpi.drivers.vsphere.place import Place, placed
from tests.peers.postgres import conductor_role
from tests.requests.site import group, manifest

from coterie.conductor.process import Conductor
from coterie.conductor.startup import connect
from coterie.engine.runner import Retry
from coterie.ledger.rows import clouds
from coterie.requests import operations
from coterie.requests.ask_clouds import ask
from coterie.requests.enroll import Enrollment, enroll
from coterie.requests.operations import destroy
from vsphere.test_vsphere_deploy import HOSTS


@pytest.fixture
def limited(postgres_url: str, tmp_path: Path) -> Iterator[Place]:
    """A place whose only conductor has the restricted role; the Director itself owns the tables."""
    with placed(tmp_path, shared(), postgres_url) as place:
        place.conductor.drain(10)
        theirs = connect(conductor_role(postgres_url, "*"))
        place.conductor = Conductor(theirs, "limited", state_folder=tmp_path, retry=Retry(tries=2, first_s=0.01))
        place.conductor.start()
        yield place
        if place.nodes():
            place.delete()
        place.conductor.drain(10)
        theirs.close()


def test_groups_single_tasks_and_enrolled_machines(limited: Place) -> None:
    limited.deploy(manifest(group("db", 2, azs="z1")))
    limited.deploy(manifest(group("db", 3, HOSTS, azs="z1")))  # joins in place: the coordinator's tables
    assert limited.drs() == {"licensed": 3}
    with limited.ledger.read() as tx:
        cloud = clouds.all_clouds(tx)["lab"]
    (seen,) = ask(limited.ledger, [(cloud, "groups", {"cids": [limited.group().cid]})])
    assert seen[limited.group().cid]["state"] == "live"

    limited.operator.rejoin("DC0_C0/licensed", drop=[limited.operator.machine(str(limited.vms()["db/1"]))])
    limited.look()
    assert limited.group().drift
    limited.operator.remove("DC0_C0/licensed")
    limited.look()
    assert limited.group().state == "missing"
    limited.wait(operations.repair_group(limited.ledger, limited.group().intent, "test"))
    assert (limited.group().state, limited.drs()) == ("live", {"licensed": 3})
    limited.wait(operations.grant(limited.ledger, "lab", "ops", True, "test"))

    theirs = limited.operator.create_vm("neighbour", "z1")
    uuid = enroll(limited.ledger, Enrollment("lab", theirs), "test")
    limited.look()
    limited.wait(destroy(limited.ledger, uuid, "test"))
    assert not limited.operator.exists("vm", theirs)
