"""Affinity groups, as the vendor has them: unique names, silent detaching, membership until expunge."""

from __future__ import annotations

from tests.sandbox.fronts.cloudstack.rig import Rig, refused

STRICT, DEDICATION = "host anti-affinity", "ExplicitDedication"


def make(rig: Rig, name: str = "g", kind: str = STRICT) -> str:
    return str(rig.admin.createAffinityGroup(name=name, type=kind, description="ours")["affinitygroup"]["id"])


def members(rig: Rig, group: str) -> list[str]:
    return list(rig.admin.listAffinityGroups(id=group)["affinitygroup"][0]["virtualmachineIds"])


def test_there_are_strict_and_non_strict_types(rig: Rig) -> None:
    kinds = {row["type"] for row in rig.user.listAffinityGroupTypes()["affinityGroupType"]}
    assert kinds == {STRICT, "host affinity", f"non-strict {STRICT}", "non-strict host affinity"}


def test_dedications_are_for_administrators(rig: Rig) -> None:
    assert {"type": DEDICATION} in rig.admin.listAffinityGroupTypes()["affinityGroupType"]
    make(rig, "hosts-of-ours", DEDICATION)
    with refused(531):
        rig.user.createAffinityGroup(name="hosts-of-mine", type=DEDICATION)


def test_groups_are_not_counted_against_any_limit(rig: Rig) -> None:
    domain = rig.admin.listAccounts()["account"][0]["domainid"]
    for limit in rig.admin.listResourceLimits()["resourcelimit"]:
        rig.admin.updateResourceLimit(resourcetype=limit["resourcetype"], max=0, account="admin", domainid=domain)
    make(rig)


def test_a_name_is_unique_in_an_account_only(rig: Rig) -> None:
    make(rig)
    with refused(431) as error:
        make(rig)
    assert "already exists" in str(error.value)
    rig.user.createAffinityGroup(name="g", type=STRICT)


def test_deleting_a_group_that_is_in_use_succeeds_and_detaches_its_vms(rig: Rig) -> None:
    group = make(rig)
    vm = rig.deploy(affinitygroupids=group)
    assert [one["id"] for one in vm["affinitygroup"]] == [group]
    rig.admin.deleteAffinityGroup(id=group)
    found = rig.vm(vm["id"])
    assert found and found["affinitygroup"] == []
    assert found["state"] == "Running"


def test_a_security_group_that_is_in_use_is_kept(rig: Rig) -> None:
    rig.set(coterie_security_groups="true")
    security_group = rig.admin.createSecurityGroup(name="web")["securitygroup"]["id"]
    rig.deploy(securitygroupids=security_group)
    with refused(536):
        rig.admin.deleteSecurityGroup(id=security_group)


def test_membership_ends_only_when_the_vm_is_expunged(rig: Rig) -> None:
    group = make(rig)
    vm = rig.deploy(affinitygroupids=group)["id"]
    rig.admin.destroyVirtualMachine(id=vm)
    assert members(rig, group) == [vm]
    rig.admin.expungeVirtualMachine(id=vm)
    assert members(rig, group) == []


def test_groups_are_changed_on_a_stopped_vm_only_and_as_a_whole(rig: Rig) -> None:
    first, second = make(rig, "first"), make(rig, "second")
    vm = rig.deploy(affinitygroupids=first)["id"]
    with refused(431):
        rig.admin.updateVMAffinityGroup(id=vm, affinitygroupids=second)
    rig.admin.stopVirtualMachine(id=vm)
    changed = rig.admin.updateVMAffinityGroup(id=vm, affinitygroupids=second)["virtualmachine"]
    assert [one["id"] for one in changed["affinitygroup"]] == [second]


def test_groups_take_no_tags_and_no_long_descriptions(rig: Rig) -> None:
    group = make(rig)
    with refused(431):
        rig.admin.createTags(resourceids=group, resourcetype="AffinityGroup", tags=[{"key": "a", "value": "b"}])
    with refused(431):
        rig.admin.createAffinityGroup(name="long", type=STRICT, description="x" * 256)


def test_a_strict_group_that_cannot_be_satisfied_fails_in_the_job(rig: Rig) -> None:
    group = make(rig)
    hosts = {rig.deploy(affinitygroupids=group)["hostid"] for _ in range(2)}
    assert len(hosts) == 2
    with refused(533):
        rig.deploy(affinitygroupids=group)
    states = sorted(row["state"] for row in rig.admin.listVirtualMachines()["virtualmachine"])
    assert states == ["Error", "Running", "Running"]


def test_a_non_strict_group_goes_on(rig: Rig) -> None:
    group = make(rig, kind=f"non-strict {STRICT}")
    assert len({rig.deploy(affinitygroupids=group)["hostid"] for _ in range(3)}) == 2


def test_deploys_may_violate_a_strict_group(rig: Rig) -> None:
    """apache/cloudstack#9110, on demand: the group is forgotten while a host is looked for."""
    rig.set(coterie_forget_affinity="true")
    group = make(rig)
    assert len({rig.deploy(affinitygroupids=group)["hostid"] for _ in range(3)}) < 3
