"""Administrators' DRS rules whose names are like those of our groups: never edited, never removed."""

from __future__ import annotations

from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from pyVmomi import vim

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupInUse, NameTaken

WEB = {"vm_group": "web"}


def write(bed: VsphereBed, operation: str, info: Any) -> None:
    spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation=operation, info=info)])
    bed.operator.run(bed.operator.cluster("z1").ReconfigureComputeResource_Task(spec, True))


def neighbours(bed: VsphereBed, lab: Lab, count: int) -> list[Any]:
    cids = [bed.operator.create_vm("neighbour", "z1") for _ in range(count)]
    for cid in cids:
        lab.undo(bed.operator.delete, "vm", cid)
    return [bed.operator.machine(cid) for cid in cids]


def rule(bed: VsphereBed, lab: Lab, name: str) -> None:
    """An administrator's: two VMs of their own stay apart."""
    vms = neighbours(bed, lab, 2)
    write(bed, "add", vim.cluster.AntiAffinityRuleSpec(name=name, enabled=True, vm=vms))
    lab.undo(bed.operator.remove_rule, "z1", name)


def shown(bed: VsphereBed, name: str) -> set[str]:
    return {one._moId for one in bed.operator.rules("z1")[name].vm}


def share(bed: VsphereBed, lab: Lab, name: str) -> set[str]:
    """An administrator puts a VM of their own into our rule."""
    info = bed.operator.rules("z1")[name]
    info.vm = [*info.vm, *neighbours(bed, lab, 1)]
    write(bed, "edit", info)
    return shown(bed, name)


@pytest.mark.parametrize("name", ["web", "web.hosts"])
def test_a_name_that_a_rule_has_is_taken(bed: VsphereBed, lab: Lab, name: str) -> None:
    rule(bed, lab, name)
    before = bed.server.inventory()
    error = expect_error(NameTaken, lambda: lab.group("anti-affinity", options=WEB))
    assert repr(name) in error.what
    assert bed.server.inventory() == before


def test_a_rule_made_after_the_reservation_is_not_joined_and_outlives_the_group(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity", options=WEB)
    rule(bed, lab, "web")
    before = shown(bed, "web")
    expect_error(NameTaken, lambda: lab.vm(group=cid))
    assert shown(bed, "web") == before
    lab.cpi.delete_server_group(cid)
    assert shown(bed, "web") == before


def test_a_rule_that_the_policy_does_not_need_is_no_hindrance_and_left_alone(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity", options=WEB)
    rule(bed, lab, "web")
    before = shown(bed, "web")
    for vm in [lab.vm(group=cid), lab.vm(group=cid)]:
        assert shown(bed, "web") == before
        lab.cpi.delete_vm(vm)
    assert shown(bed, "web") == before


def test_a_rule_about_another_group_is_not_turned_to_ours(bed: VsphereBed, lab: Lab) -> None:
    theirs = bed.operator.create_group("their-vms", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    cluster = bed.operator.cluster("z1")
    hosts = vim.cluster.HostGroup(name="licensed", host=bed.operator.get(cluster, "host")[:1])
    change = vim.cluster.GroupSpec(operation="add", info=hosts)
    bed.operator.run(cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(groupSpec=[change]), True))
    lab.undo(bed.operator.remove, "DC0_C0/licensed")
    cid = lab.group("host-affinity", options={**WEB, "host_group": "licensed"})
    info = vim.cluster.VmHostRuleInfo(name="web.hosts", vmGroupName="their-vms", affineHostGroupName="licensed")
    write(bed, "add", info)
    lab.undo(bed.operator.remove_rule, "z1", "web.hosts")
    expect_error(NameTaken, lambda: lab.vm(group=cid))
    lab.cpi.delete_server_group(cid)
    assert bed.operator.rules("z1")["web.hosts"].vmGroupName == "their-vms"


def test_a_rule_of_ours_with_foreign_vms_is_kept_when_our_vms_go(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity", options=WEB)
    vms = [lab.vm(group=cid), lab.vm(group=cid)]
    shared = share(bed, lab, "web")
    lab.undo(bed.operator.remove_rule, "z1", "web")
    expect_error(NameTaken, lambda: lab.vm(group=cid))
    assert shown(bed, "web") == shared
    for vm in vms:
        lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)
    assert "web" in bed.operator.rules("z1")


def test_a_group_whose_rule_has_foreign_vms_is_in_use(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity", options=WEB)
    lab.vm(group=cid)
    lab.vm(group=cid)
    share(bed, lab, "web")
    cluster = bed.operator.cluster("z1")
    change = vim.cluster.GroupSpec(operation="remove", removeKey="web")
    bed.operator.run(cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(groupSpec=[change]), True))
    error = expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid))
    assert "'web'" in error.why
    bed.operator.remove_rule("z1", "web")
    lab.cpi.delete_server_group(cid)


def test_a_renamed_vm_of_ours_does_not_make_the_rule_foreign(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity", options=WEB)
    first = lab.vm(group=cid)
    lab.vm(group=cid)
    bed.operator.run(bed.operator.machine(first).Rename_Task("another name"))
    lab.vm(group=cid)
    assert len(shown(bed, "web")) == 3
