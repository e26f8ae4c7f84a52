"""Members of a server group: VMs join when they are made, leave when they go, and keep the group from being deleted."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.parts.groups import resources
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import GroupInUse, GroupMissing, NoPlacement

HOSTS = {"anti-affinity": 2, "affinity": 1}  # the hosts that two members of a strict group are on


@proves("create_vm", "inspect_server_group", "delete_vm", "delete_server_group")
def test_a_vm_joins_and_leaves(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    cid = lab.group()
    empty = lab.cpi.inspect_server_group(cid).state
    vm = lab.vm(group=cid)
    view = lab.cpi.inspect_server_group(cid)
    assert view.state == "live"
    assert [(one.vm_cid, one.ours) for one in view.members] == [(vm, True)]
    if lab.capabilities.host_visibility:
        assert view.members[0].host
    assert any(one.kind == "server_group" for one in view.resources)
    lab.cpi.delete_vm(vm)
    view = lab.cpi.inspect_server_group(cid)
    assert view.members == ()
    assert view.state == empty


@proves("create_vm", "inspect_server_group")
def test_vms_that_join_at_the_same_time_are_all_members(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    cid = lab.group()
    wanted = [lab.vm_arguments(az, cid) for az in lab.bed.azs for _ in range(3)]
    vms = [created.cid for created in together([partial(lab.bed.open().create_vm, **one) for one in wanted])]
    for vm in vms:
        lab.undo(lab.cpi.delete_vm, vm)
    assert sorted(one.vm_cid for one in lab.cpi.inspect_server_group(cid).members) == sorted(vms)


@proves("create_vm", "inspect_server_group")
def test_declared_policies_are_kept(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    for policy in sorted(lab.capabilities.policies):
        cid = lab.group(policy)
        vms = {lab.vm(group=cid, member=number) for number in range(2)}
        members = lab.cpi.inspect_server_group(cid).members
        assert {one.vm_cid for one in members} == vms
        hosts = {one.host for one in members}
        if lab.capabilities.host_visibility and policy in HOSTS:
            assert None not in hosts
            assert len(hosts) == HOSTS[policy], policy
        if policy == "anti-affinity" and policy in lab.capabilities.domains:
            assert None not in {one.domain for one in members}
            assert len({one.domain for one in members}) == len(members), "members with other numbers are in one domain"


@proves("create_vm", "inspect_server_group")
def test_members_fill_the_domains_that_the_limits_promise(lab: Lab) -> None:
    """Where the cloud shows domains and takes so many members in an az, it has so many domains for them."""
    lab.needs("inspect_server_group")
    for policy in sorted(lab.capabilities.domains):
        most = lab.capabilities.group_limit(policy).members_per_az
        if policy != "anti-affinity" or most is None:
            continue
        cid = lab.group(policy)
        calls = [lab.vm_arguments(group=cid, member=number) for number in range(most)]
        for created in together([partial(lab.bed.open().create_vm, **one) for one in calls]):
            lab.undo(lab.cpi.delete_vm, created.cid)
        domains = [one.domain for one in lab.cpi.inspect_server_group(cid).members]
        assert None not in domains and len(set(domains)) == most


@proves("create_vm")
def test_strict_anti_affinity_refuses_one_more_than_there_are_hosts(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    cid = lab.group("anti-affinity" if "anti-affinity" in lab.capabilities.policies else None)
    strict = lab.cpi.inspect_server_group(cid).policy == "anti-affinity"
    for _ in range(lab.hosts):
        lab.vm(group=cid)
    if strict:
        assert expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(group=cid))).why
    else:
        lab.vm(group=cid)
    assert len(lab.cpi.inspect_server_group(cid).members) == lab.hosts + (0 if strict else 1)


@proves("create_vm")
def test_a_vm_that_fits_nowhere_leaves_its_group_as_it_was(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    cid = lab.group()
    lab.vm(group=cid)
    before = lab.cpi.inspect_server_group(cid)
    huge = lab.bed.huge_vm_properties(lab.az)
    error = expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(group=cid, cloud_properties=huge)))
    assert error.why
    assert lab.cpi.inspect_server_group(cid) == before


@proves("delete_server_group")
def test_a_group_with_a_member_of_ours_is_not_deleted(lab: Lab) -> None:
    lab.needs("delete_server_group")
    cid = lab.group()
    lab.vm(group=cid)
    before = lab.cpi.inspect_server_group(cid)
    expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid))
    assert lab.cpi.inspect_server_group(cid) == before


@proves("delete_server_group", "inspect_server_group")
def test_a_group_with_a_foreign_member_is_not_deleted(lab: Lab) -> None:
    lab.needs("delete_server_group")
    operator = lab.operator
    cid = lab.group()
    ours = lab.vm(group=cid)
    resource = next(one for one in lab.cpi.inspect_server_group(cid).resources if one.kind == "server_group")
    foreign = operator.join(operator.create_vm("neighbour", lab.az), resource)
    lab.undo(operator.delete, "vm", foreign)
    lab.cpi.delete_vm(ours)
    view = lab.cpi.inspect_server_group(cid)
    assert [(one.vm_cid, one.ours) for one in view.members] == [(foreign, False)]
    expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid))
    assert operator.exists("vm", foreign)
    assert lab.cpi.inspect_server_group(cid) == view


@proves("inspect_server_group", "create_vm", "delete_server_group", "delete_vm")
def test_a_group_deleted_behind_our_back_is_missing_and_says_so(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    cid = lab.group()
    reserved = lab.cpi.inspect_server_group(cid).state == "reserved"
    vm = lab.vm(group=cid)
    for resource in resources(lab, cid, "server_group"):
        lab.operator.delete("server_group", resource)
    state = lab.cpi.inspect_server_group(cid).state
    assert state in (("missing", "drifted") if reserved else ("missing",))
    if state == "missing":
        expect_error(GroupMissing, lambda: lab.cpi.create_vm(**lab.vm_arguments(group=cid)))
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)


@proves("create_vm")
def test_a_group_that_never_was_cannot_be_joined(lab: Lab) -> None:
    lab.needs("create_server_group")
    expect_error(GroupMissing, lambda: lab.cpi.create_vm(**lab.vm_arguments(group=lab.mark().group_cid)))
