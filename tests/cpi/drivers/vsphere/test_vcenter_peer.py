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


def test_an_empty_group_is_refused(bed: VsphereBed) -> None:
    empty = vim.cluster.GroupSpec(operation="add", info=vim.cluster.VmGroup(name="empty", vm=[]))
    with pytest.raises(vmodl.fault.InvalidArgument):
        reconfigure(bed, groupSpec=[empty])


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
