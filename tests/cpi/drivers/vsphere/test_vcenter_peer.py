"""The simulated vCenter refuses what a real one is said to refuse, and its DRS obeys: else our tests prove less."""

from __future__ import annotations

from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from pyVmomi import vim, vmodl


def reconfigure(bed: VsphereBed, **spec: Any) -> None:
    cluster = bed.operator.cluster("z1")
    bed.operator.run(cluster.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(**spec), True))


def rule(kind: Any, machines: list[Any]) -> Any:
    info = kind(name="rule", enabled=True, mandatory=True, vm=machines)
    return vim.cluster.RuleSpec(operation="add", info=info)


def group(operation: str, machines: list[Any]) -> Any:
    return vim.cluster.GroupSpec(operation=operation, info=vim.cluster.VmGroup(name="small", vm=machines))


def test_a_new_group_without_members_is_refused_and_one_may_be_emptied(bed: VsphereBed) -> None:
    with pytest.raises(vmodl.fault.InvalidArgument):
        reconfigure(bed, groupSpec=[group("add", [])])
    machine = bed.operator.boot("only", "z1")
    reconfigure(bed, groupSpec=[group("add", [machine])])
    reconfigure(bed, groupSpec=[group("edit", [])])
    assert bed.operator.group("DC0_C0/small").vm == []
    bed.operator.remove("DC0_C0/small")
    bed.operator.run(machine.Destroy_Task())


@pytest.mark.parametrize("path", ["configurationEx.group", "configurationEx.drsConfig", "summary.nothing", "vm.name"])
def test_property_paths_follow_declared_types_only(bed: VsphereBed, path: str) -> None:
    """`configurationEx` is declared as a class that has neither groups nor rules, whatever the object really is."""
    with pytest.raises(vmodl.query.InvalidProperty):
        bed.operator.get(bed.operator.cluster("z1"), path)
    assert bed.operator.get(bed.operator.cluster("z1"), "summary.numHosts") == 3


def test_a_value_that_its_enumeration_does_not_have_is_refused(bed: VsphereBed) -> None:
    with pytest.raises(vmodl.fault.InvalidRequest):
        reconfigure(bed, groupSpec=[group("replace", [])])


def test_without_drs_a_vm_needs_a_host(bed: VsphereBed) -> None:
    bed.operator.switch_drs("z1", False)
    try:
        with pytest.raises(vmodl.fault.InvalidArgument):
            bed.operator.boot("homeless", "z1")
    finally:
        bed.operator.switch_drs("z1", True)


def test_a_rule_between_fewer_than_two_vms_is_refused(bed: VsphereBed) -> None:
    machine = bed.operator.boot("lonely", "z1")
    with pytest.raises(vmodl.fault.InvalidArgument):
        reconfigure(bed, rulesSpec=[rule(vim.cluster.AntiAffinityRuleSpec, [machine])])
    bed.operator.run(machine.Destroy_Task())


def test_a_name_is_taken_once_per_folder(bed: VsphereBed) -> None:
    machine = bed.operator.boot("twin", "z1")
    spec = vim.vm.ConfigSpec(name=bed.operator.get(machine, "name"), guestId="otherGuest", numCPUs=1, memoryMB=64)
    spec.files = vim.vm.FileInfo(vmPathName="[LocalDS_0]")
    pool = bed.operator.get(bed.operator.cluster("z1"), "resourcePool")
    with pytest.raises(vim.fault.DuplicateName):
        bed.operator.run(bed.operator.find("DC0/vm").CreateVM_Task(spec, pool))
    bed.operator.run(machine.Destroy_Task())


def test_a_mandatory_rule_keeps_vms_on_different_hosts_or_off(bed: VsphereBed) -> None:
    machines = [bed.operator.boot("apart", "z1") for _ in range(4)]
    reconfigure(bed, rulesSpec=[rule(vim.cluster.AntiAffinityRuleSpec, machines)])
    for machine in machines[:3]:
        bed.operator.run(machine.PowerOnVM_Task())
    assert len({bed.operator.get(machine, "runtime.host")._moId for machine in machines[:3]}) == 3
    with pytest.raises(vim.fault.NoCompatibleHost):
        bed.operator.run(machines[3].PowerOnVM_Task())
    bed.operator.remove_rule("z1", "rule")
    for machine in machines:
        bed.operator.delete("vm", bed.operator.get(machine, "config.instanceUuid"))
