"""Members that crash, are cut off and come back. A silent member is unknown, never empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from peers.incus_bed import CLUSTER, IncusBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import NoPlacement

ANYWHERE = {"cpu": 1, "memory": 64}


@pytest.fixture
def crashed(bed: IncusBed, lab: Lab) -> Iterator[str]:
    """The third member's VM, whose member crashes; it is back at the end."""
    vm = lab.vm("z2")
    CLUSTER.crash("inc3")
    CLUSTER.await_status("inc3", "Offline")
    yield vm
    CLUSTER.rejoin("inc3")


def test_what_is_on_a_crashed_member_is_listed_and_nothing_is_put_there(bed: IncusBed, lab: Lab, crashed: str) -> None:
    page = lab.cpi.survey("vm", bed.director_uuid)
    assert not page.complete, "what a silent member has is not told"
    assert [(one.host, one.state) for one in page.objects if one.cid == crashed] == [("inc3", None)]
    assert lab.cpi.has_vm(crashed)
    group = lab.group("anti-affinity")
    for _ in range(2):
        lab.vm(group=group, cloud_properties=ANYWHERE)
    with pytest.raises(NoPlacement) as caught:
        lab.bed.open().create_vm(**lab.vm_arguments(group=group, cloud_properties=ANYWHERE))
    assert "inc3: it is offline" in caught.value.why
    CLUSTER.rejoin("inc3")
    assert bed.operator.call("GET", f"/1.0/instances/{crashed}")["status"] == "Stopped", "it must not start by itself"
    CLUSTER.crash("inc3")


def test_an_affinity_group_does_not_leave_its_silent_member(bed: IncusBed, lab: Lab) -> None:
    group = lab.group("affinity", azs=())
    vm = lab.vm(group=group, cloud_properties={**ANYWHERE, "cluster_group": "z2"})
    CLUSTER.crash("inc3")
    try:
        CLUSTER.await_status("inc3", "Offline")
        assert [(one.vm_cid, one.host) for one in lab.cpi.inspect_server_group(group).members] == [(vm, "inc3")]
        with pytest.raises(NoPlacement, match=r"inc3|no member"):
            lab.bed.open().create_vm(**lab.vm_arguments(group=group, cloud_properties=ANYWHERE))
    finally:
        CLUSTER.rejoin("inc3")


def test_a_member_that_crashes_unnoticed_is_passed_over(bed: IncusBed, lab: Lab) -> None:
    """Before the cluster knows: the create there fails at once, and goes to another member under the same name."""
    group = lab.group("anti-affinity", azs=())
    image = lab.image()
    CLUSTER.crash("inc2")
    try:
        cids = [lab.vm(group=group, stemcell_cid=image, cloud_properties=ANYWHERE) for _ in range(2)]
        assert sorted(bed.operator.locations(*cids)) == ["inc1", "inc3"]
    finally:
        CLUSTER.rejoin("inc2")


def test_a_member_that_was_cut_off_comes_back_with_its_machines(bed: IncusBed, lab: Lab) -> None:
    vm = lab.vm("z2")
    CLUSTER.cut("inc3")
    try:
        CLUSTER.await_status("inc3", "Offline")
        (found,) = [one for one in lab.cpi.survey("vm", bed.director_uuid).objects if one.cid == vm]
        assert (found.host, found.state) == ("inc3", None)
    finally:
        CLUSTER.heal("inc3")
        CLUSTER.await_status("inc3", "Online")
    (found,) = [one for one in lab.cpi.survey("vm", bed.director_uuid).objects if one.cid == vm]
    assert found.state == "running"


def test_what_incus_itself_moves_is_seen(bed: IncusBed, lab: Lab) -> None:
    """An evacuation stops strict members where they are; a member that an operator moves is seen at its new place."""
    group = lab.group("anti-affinity", azs=())
    cids = [lab.vm(group=group, cloud_properties={**ANYWHERE, "cluster_group": "z1"}) for _ in range(2)]
    moved = cids[0]
    bed.operator.call("PUT", f"/1.0/instances/{moved}/state", {"action": "stop", "force": True})
    bed.operator.call("POST", f"/1.0/instances/{moved}?target=inc3", {"name": moved, "migration": True})
    hosts = {one.vm_cid: one.host for one in lab.cpi.inspect_server_group(group).members}
    assert hosts[moved] == "inc3"
    assert bed.operator.call("GET", f"/1.0/instances/{cids[1]}")["config"]["cluster.evacuate"] == "stop"
