"""Strict policies that the cloud breaks: noticed after every deploy, and one of the two VMs fails, never both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.expect import wait_for
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import NoPlacement, VMCreationFailed
from coterie.sandbox import reshape


def crowded(bed: CloudstackBed, lab: Lab, group: str) -> str:
    """A member of the group, alone on the only host that is up in its zone; the cloud forgets groups from now on."""
    first = lab.vm(group=group)
    (member,) = lab.cpi.inspect_server_group(group).members
    for host in bed.client().listHosts()["host"]:
        if host["zonename"] == lab.az and host["name"] != member.host:
            reshape.set_host(bed.datacenter, host["name"], up=False)
    with pytest.raises(NoPlacement):
        lab.cpi.create_vm(**lab.vm_arguments(group=group))
    bed.set("coterie.forget.affinity", "true")
    return first


def dated(bed: CloudstackBed, vm: str, seconds: float) -> None:
    with bed.datacenter.store.writing() as db:
        db.execute("UPDATE objects SET created_at = created_at + ? WHERE id = ?", (seconds, f"vm-{vm}"))


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_broken_policy_of_a_strict_group_is_noticed(bed: CloudstackBed, lab: Lab, seconds: float) -> None:
    """Whether the member that was there is the older one or not: it is finished, so it never looks again."""
    group = lab.group("anti-affinity")
    dated(bed, crowded(bed, lab, group), seconds)
    bed.more = {"settle_s": 10_000}  # none is waited for
    with pytest.raises(VMCreationFailed, match="broke policy") as caught:
        bed.open().create_vm(**lab.vm_arguments(group=group))
    assert caught.value.retryable
    assert len(lab.cpi.inspect_server_group(group).members) == 1


def test_the_elder_of_two_in_the_making_stays_when_the_younger_yields(bed: CloudstackBed, lab: Lab) -> None:
    group = lab.group("anti-affinity")
    other = crowded(bed, lab, group)
    dated(bed, other, 3600)
    client = bed.client()
    client.deleteTags(resourceids=other, resourcetype="UserVm", tags=[{"key": "coterie-director"}])  # not finished
    arguments = lab.vm_arguments(group=group)
    bed.more = {"settle_s": 60}
    with ThreadPoolExecutor(1) as pool:
        elder = pool.submit(lambda: bed.open().create_vm(**arguments).cid)
        running = {"name": arguments["mark"].name(), "state": "Running"}
        assert wait_for(lambda: client.listVirtualMachines(**running) or None, 20)
        assert not elder.done()
        client.destroyVirtualMachine(id=other, expunge=True)
        lab.undo(lab.cpi.delete_vm, elder.result())
