"""govc, a client that knows nothing of ours, tells what the driver has made: `make test-vsphere-new` brings it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from peers.vsphere_bed import VsphereBed
from tests.peers.vcenter import newest

from coterie.cpi.conformance.lab import Lab

pytestmark = pytest.mark.skipif(newest() is None, reason="govc comes with `make test-vsphere-new`")


def govc(bed: VsphereBed, *words: str) -> str:
    folder = newest()
    assert folder is not None
    user = {"GOVC_URL": f"{bed.server.url}/sdk", "GOVC_USERNAME": "root", "GOVC_PASSWORD": "secret"}
    user |= {"GOVC_DATACENTER": "DC0", "GOVC_PERSIST_SESSION": "false", "HOME": folder}
    done = subprocess.run(
        [str(Path(folder) / "govc"), words[0], "-json", *words[1:]],
        capture_output=True,
        text=True,
        env=user,
        check=True,
    )
    return done.stdout


def test_a_second_client_sees_the_group_its_members_and_its_rule(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    vms = [lab.vm(group=cid) for _ in range(2)]
    name = f"kit.broker.{cid}"
    for verb in ("cluster.group.ls", "cluster.rule.ls"):
        assert name in govc(bed, verb, "-cluster", "DC0_C0")
    machines = [bed.operator.get(bed.operator.machine(vm), "name") for vm in vms]
    members = govc(bed, "cluster.group.ls", "-cluster", "DC0_C0", "-name", name)
    assert all(machine in members for machine in machines)
    info = json.loads(govc(bed, "vm.info", *machines))
    assert {one["config"]["instanceUuid"] for one in info["virtualMachines"]} == set(vms)
