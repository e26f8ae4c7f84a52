"""DRS VM groups and rules: named, made by the first join, tied to hosts, emptied and kept."""

from __future__ import annotations

from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed, scrubbing
from pyVmomi import vim

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupInUse, GroupMissing, InvalidCall, NameTaken, Needs, PrivilegeMissing

RECONFIGURE = "ReconfigureComputeResource_Task"


def drs_name(lab: Lab, cid: str) -> str:
    return next(one.cid for one in lab.cpi.inspect_server_group(cid).resources if one.kind == "server_group")


def names(bed: VsphereBed, az: str = "z1") -> set[str]:
    groups = bed.operator.get(bed.operator.cluster(az), "configurationEx").group
    return {one.name for one in groups or ()}


def host_group(bed: VsphereBed, lab: Lab, name: str, count: int, az: str = "z1") -> list[Any]:
    """An administrator's host group with the first hosts of the cluster."""
    cluster = bed.operator.cluster(az)
    hosts = bed.operator.get(cluster, "host")[:count]
    info = vim.cluster.HostGroup(name=name, host=hosts)
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=info)])
    bed.operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
    lab.undo(bed.operator.remove, f"{bed.operator.get(cluster, 'name')}/{name}")
    return hosts


def test_a_group_is_reserved_named_by_what_it_is_for_and_made_by_its_first_vm(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    assert names(bed) == set()
    assert RECONFIGURE not in bed.server.methods()
    vm = lab.vm(group=cid)
    assert names(bed) == {f"kit.broker.{cid}"}
    lab.cpi.delete_vm(vm)
    assert names(bed) == set()
    assert lab.cpi.inspect_server_group(cid).state == "reserved"


def test_a_vm_joins_between_its_creation_and_its_first_power_on(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    lab.image()
    bed.server.forget_calls()
    lab.vm(group=cid)
    order = [one for one in bed.server.methods() if one in ("CloneVM_Task", RECONFIGURE, "PowerOnVM_Task")]
    assert order == ["CloneVM_Task", RECONFIGURE, "PowerOnVM_Task"]


def test_vms_without_a_group_make_no_call_that_needs_the_clusters_privilege(bed: VsphereBed, lab: Lab) -> None:
    lab.cpi.delete_vm(lab.vm())
    assert RECONFIGURE not in bed.server.methods()


@pytest.mark.parametrize(
    ("policy", "kind", "mandatory"),
    [
        ("anti-affinity", vim.cluster.AntiAffinityRuleSpec, True),
        ("soft-anti-affinity", vim.cluster.AntiAffinityRuleSpec, False),
        ("affinity", vim.cluster.AffinityRuleSpec, True),
        ("soft-affinity", vim.cluster.AffinityRuleSpec, False),
    ],
)
def test_the_second_join_makes_the_rule_and_the_last_but_one_leave_removes_it(
    bed: VsphereBed, lab: Lab, policy: str, kind: type, mandatory: bool
) -> None:
    cid = lab.group(policy)
    lab.vm(group=cid)
    assert bed.operator.rules("z1") == {}
    second = lab.vm(group=cid)
    (rule,) = bed.operator.rules("z1").values()
    assert isinstance(rule, kind)
    assert bool(rule.mandatory) is mandatory
    assert len(rule.vm) == 2
    lab.cpi.delete_vm(second)
    assert bed.operator.rules("z1") == {}


def test_host_affinity_alone_makes_no_rule(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    lab.vm(group=cid)
    lab.vm(group=cid)
    assert bed.operator.rules("z1") == {}
    assert lab.cpi.inspect_server_group(cid).hosts is None


@pytest.mark.parametrize(("rule", "affine"), [("must", True), ("must", False), ("should", True), ("should", False)])
def test_with_a_host_group_the_rule_is_made_too_and_holds(bed: VsphereBed, lab: Lab, rule: str, affine: bool) -> None:
    chosen = {bed.operator.get(host, "name") for host in host_group(bed, lab, "licensed", 1)}
    options = {"host_group": "licensed", "rule": rule, "affine": affine}
    cid = lab.group("host-affinity", options=options)
    vm = lab.vm(group=cid)
    (made,) = bed.operator.rules("z1").values()
    assert (made.mandatory, bool(made.affineHostGroupName)) == (rule == "must", affine)
    view = lab.cpi.inspect_server_group(cid)
    (member,) = view.members
    assert (member.host in chosen) is affine
    assert view.hosts == (tuple(sorted(chosen)) if affine else None)
    lab.cpi.delete_vm(vm)
    assert bed.operator.rules("z1") == {}
    assert names(bed) == {"licensed"}


def test_a_host_group_that_is_not_there_is_refused_before_anything_is_made(bed: VsphereBed, lab: Lab) -> None:
    before = bed.server.inventory()
    error = expect_error(InvalidCall, lambda: lab.group("host-affinity", options={"host_group": "nobody-has-this"}))
    assert "nobody-has-this" in str(error)
    assert bed.server.inventory() == before


def test_the_users_own_name_is_used_as_it_is_and_once(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity", options={"vm_group": "licensed/vms"})
    lab.vm(group=cid)
    assert names(bed) == {"licensed/vms"}
    expect_error(NameTaken, lambda: lab.group("host-affinity", options={"vm_group": "licensed/vms"}))


def test_a_name_that_another_client_takes_after_the_reservation_is_not_joined(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity", options={"vm_group": "operators-own"})
    theirs = bed.operator.create_group("operators-own", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    expect_error(NameTaken, lambda: lab.vm(group=cid))
    assert len(bed.operator.group(theirs).vm) == 2


@pytest.mark.parametrize("handle", ["name", "identifier"])
def test_a_group_is_adopted_by_name_or_identifier_and_never_deleted(bed: VsphereBed, lab: Lab, handle: str) -> None:
    theirs = bed.operator.create_group("operators-own", "host-affinity", "z1")
    lab.undo(bed.operator.delete, "server_group", theirs)
    group = bed.operator.group(theirs)
    word = group.name if handle == "name" else group.uniqueID
    cid = lab.group("host-affinity", options={"vm_group": word, "adopt": True})
    vm = lab.vm(group=cid)
    assert len(bed.operator.group(theirs).vm) == 3
    bed.operator.rejoin(theirs, drop=list(group.vm))
    lab.cpi.delete_vm(vm)
    assert bed.operator.exists("server_group", theirs)


def test_adopting_a_group_that_promises_something_else_is_refused(bed: VsphereBed, lab: Lab) -> None:
    lab.undo(bed.operator.delete, "server_group", bed.operator.create_group("operators-own", "anti-affinity", "z1"))
    options = {"vm_group": "operators-own", "adopt": True}
    error = expect_error(InvalidCall, lambda: lab.group("host-affinity", options=options))
    assert "anti-affinity" in str(error)


def test_administrators_members_survive_our_joins_and_leaves(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    first = lab.vm(group=cid)
    where = drs_name(lab, cid)
    foreign = bed.operator.create_vm("neighbour", "z1")
    lab.undo(bed.operator.delete, "vm", foreign)
    bed.operator.rejoin(where, add=[bed.operator.machine(foreign)])
    second = lab.vm(group=cid)
    lab.cpi.delete_vm(first)
    lab.cpi.delete_vm(second)
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [foreign]
    error = expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid))
    assert "foreign" in error.why
    bed.operator.delete("vm", foreign)


def test_a_group_that_was_renamed_takes_no_vm_until_it_is_repaired(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    vms = [lab.vm(group=cid), lab.vm(group=cid)]
    bed.operator.remove(drs_name(lab, cid))
    view = lab.cpi.inspect_server_group(cid)
    assert view.state == "missing"
    assert "DC0_C0" in view.notes[0]
    error = expect_error(GroupMissing, lambda: lab.vm(group=cid))
    assert "repair" in error.remedy
    lab.cpi.update_server_group(cid, lab.metadata())
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, {one.vm_cid for one in view.members}) == ("live", set(vms))
    assert len(bed.operator.rules("z1")) == 1


def test_members_that_another_writer_dropped_are_reported_and_come_back(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    vms = [lab.vm(group=cid) for _ in range(3)]
    bed.operator.rejoin(drs_name(lab, cid), drop=[bed.operator.machine(vms[0])])
    view = lab.cpi.inspect_server_group(cid)
    assert view.state == "drifted"
    assert vms[0] in view.notes[0]
    lab.cpi.update_server_group(cid, lab.metadata())
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, {one.vm_cid for one in view.members}) == ("live", set(vms))


def test_drs_off_is_reported_by_inspect_and_refused_by_check(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    lab.vm(group=cid)
    bed.operator.switch_drs("z1", False)
    lab.undo(bed.operator.switch_drs, "z1", True)
    assert any("DRS is off" in note for note in lab.cpi.inspect_server_group(cid).notes)
    items = lab.cpi.check(Needs(policies=("anti-affinity",), azs=("z1",)))
    assert [(item.what, item.ok) for item in items if "DRS" in item.what] == [("DRS DC0_C0", False)]
    assert all(item.ok for item in lab.cpi.check(Needs(policies=("anti-affinity",), azs=("z2",))))


def test_without_the_clusters_privilege_the_join_is_fatal_and_the_vm_is_gone(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group()
    lab.image()
    before = bed.inventory()
    bed.server.bend(
        RECONFIGURE,
        "fault",
        fault="NoPermission",
        detail='<object type="ClusterComputeResource">c</object><privilegeId>Host.Inventory.EditCluster</privilegeId>',
    )
    error = expect_error(PrivilegeMissing, lambda: lab.vm(group=cid))
    assert "Host.Inventory.EditCluster" in error.what
    assert bed.inventory() == before


@pytest.mark.parametrize("scrub", [True, False])
def test_a_vm_destroyed_behind_our_back_does_not_stay_a_member(tmp_path_factory: Any, scrub: bool) -> None:
    with scrubbing(tmp_path_factory.mktemp("bed"), scrub) as bed:
        lab = Lab(bed)
        cid = lab.group()
        vms = [lab.vm(group=cid) for _ in range(3)]
        bed.operator.delete("vm", vms[0])
        assert {one.vm_cid for one in lab.cpi.inspect_server_group(cid).members} == set(vms[1:])
        vms.append(lab.vm(group=cid))
        assert len(bed.operator.group(drs_name(lab, cid)).vm) == 3
        lab.close()


@pytest.mark.parametrize("below", ["", "/name=web"])
def test_a_group_whose_folder_holds_a_foreign_vm_is_kept_whole(bed: VsphereBed, lab: Lab, below: str) -> None:
    """Removing the folder would unregister the VM."""
    cid = lab.group("host-affinity", options={"vm_group": "web"})
    lab.vm(group=cid)
    theirs = bed.operator.create_vm("dragged", "z1")
    lab.undo(bed.operator.delete, "vm", theirs)
    machine, folder = bed.operator.machine(theirs), f"DC0/vm/coterie/{bed.director_uuid}/groups/{cid}{below}"
    bed.operator.run(bed.operator.find(folder).MoveIntoFolder_Task([machine]))
    assert "dragged" in expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid)).why
    assert names(bed) == {"web"}
    assert bed.operator.exists("vm", theirs)
    bed.operator.run(bed.operator.find("DC0/vm").MoveIntoFolder_Task([machine]))


def test_a_label_that_holds_a_foreign_vm_is_not_removed_by_the_last_leave(bed: VsphereBed, lab: Lab) -> None:
    cid = lab.group("host-affinity")
    vm = lab.vm(group=cid)
    theirs = bed.operator.create_vm("dragged", "z1")
    lab.undo(bed.operator.delete, "vm", theirs)
    machine, groups = bed.operator.machine(theirs), f"DC0/vm/coterie/{bed.director_uuid}/groups"
    label = bed.operator.find(f"{groups}/{cid}/live={bed.operator.cluster('z1')._moId}")
    bed.operator.run(label.MoveIntoFolder_Task([machine]))
    assert "dragged" in expect_error(GroupInUse, lambda: lab.cpi.delete_vm(vm)).why
    assert bed.operator.exists("vm", theirs)
    bed.operator.run(bed.operator.find("DC0/vm").MoveIntoFolder_Task([machine]))
    lab.cpi.delete_vm(vm)
    assert names(bed) == set()
