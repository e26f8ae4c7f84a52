"""Fifty parallel nodes in one strict group on three hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.openstack.place import placed
from tests.requests.site import group, manifest

NODES = 50


@pytest.mark.timeout(1200)
def test_as_many_run_as_hosts_allow_and_the_rest_is_explained(bed: OpenstackBed, tmp_path: Path) -> None:
    bed.more["request_timeout"] = 300  # one Neutron with one worker makes all their ports
    with placed(tmp_path, bed) as place:
        place.patience_s = 1000.0
        text = manifest(group("a", NODES, "placement: {policy: anti-affinity}", azs="z1"))
        task = place.deploy(text.replace("canaries: 1", "canaries: 0"), "failed")
        servers = bed.operator.listed("vm")
        running = [one for one in servers if bed.operator.server(one["id"])["status"] == "ACTIVE"]
        assert len(running) == bed.hosts
        assert sorted(bed.operator.hosts()[one["id"]] for one in running) == ["fake1", "fake2", "fake3"]
        story = place.story(task)
        explained = [line for line in story.splitlines() if "no_placement" in line or "anti-affinity" in line]
        assert len(explained) >= NODES - len(running), story[-3000:]
        place.delete()
        assert {kind for kind, _ in bed.inventory()} <= {"image"}
