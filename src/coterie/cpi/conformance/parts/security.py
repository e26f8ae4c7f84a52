"""Security groups of a server group: created with their rules, changed in place, shared, adopted only where that is
requested, and deleted only if created here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import (
    Changed,
    Expected,
    GroupMissing,
    GroupResource,
    NameTaken,
    Needs,
    NotSupported,
    SecurityGroup,
    compare_rules,
    read_rules,
)

WEB = SecurityGroup("kit-web", ({"protocol": "tcp", "ports": "80", "cidr": "0.0.0.0/0", "direction": "ingress"},))
SSH = SecurityGroup("kit-ssh")
WIDE = SecurityGroup("kit-wide", ({"protocol": "any", "cidr": "0.0.0.0/0"},))
NARROW = (
    {"protocol": "tcp", "ports": "443", "cidr": "10.0.0.0/8"},
    {"protocol": "udp", "ports": "1-65535", "cidr": "10.1.2.3/16"},
    {"protocol": "icmp", "cidr": "10.0.0.0/8"},
)


def security_groups_of(lab: Lab, cid: str) -> list[GroupResource]:
    return [one for one in lab.cpi.inspect_server_group(cid).resources if one.kind == "security_group"]


@proves("create_server_group", "delete_server_group")
def test_a_security_group_that_is_missing_is_made_and_goes_with_the_group(lab: Lab) -> None:
    lab.needs("create_server_group")
    lab.needs_security_groups()
    before = lab.inventory()
    cid = lab.group(security_groups=[WEB])
    vm = lab.vm(group=cid)
    assert [one.created_by_us for one in security_groups_of(lab, cid)] == [True]
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(cid)
    assert [one for one in lab.inventory() - before if one[0] == "security_group"] == []


@proves("create_server_group", "check")
def test_an_operators_security_group_is_not_joined_by_its_name(lab: Lab) -> None:
    lab.needs("create_server_group")
    lab.needs_security_groups()
    theirs = lab.operator.create_security_group(WEB.name)
    lab.undo(lab.operator.delete, "security_group", theirs)
    before = lab.inventory()
    expect_error(NameTaken, lambda: lab.group(security_groups=[SSH, WEB]))
    assert lab.inventory() == before
    asked = Needs(groups=({"name": "broker", "policy": lab.policy, "security_groups": [WEB.wire()]},))
    assert [one for one in lab.cpi.check(asked) if not one.ok and WEB.name in one.detail]


@proves("create_server_group", "delete_server_group")
def test_an_adopted_security_group_is_used_and_kept(lab: Lab) -> None:
    lab.needs("create_server_group")
    lab.needs_security_groups()
    expect_error(GroupMissing, lambda: lab.group(security_groups=[replace(SSH, adopt=True)]))
    theirs = lab.operator.create_security_group(WEB.name)
    lab.undo(lab.operator.delete, "security_group", theirs)
    cid = lab.group(security_groups=[replace(WEB, adopt=True)])
    lab.cpi.delete_vm(lab.vm(group=cid))
    assert [(one.cid, one.created_by_us) for one in security_groups_of(lab, cid)] == [(theirs, False)]
    lab.cpi.delete_server_group(cid)
    assert lab.operator.exists("security_group", theirs)


@proves("create_server_group", "delete_server_group")
def test_a_security_group_of_two_groups_goes_with_the_last(lab: Lab) -> None:
    lab.needs("create_server_group")
    lab.needs_security_groups()
    first, second = lab.group(security_groups=[WEB]), lab.group(security_groups=[WEB])
    (shared,) = security_groups_of(lab, first)
    assert [one.cid for one in security_groups_of(lab, second)] == [shared.cid]
    lab.cpi.delete_server_group(first)
    assert ("security_group", shared.cid) in lab.inventory()
    assert [one.cid for one in security_groups_of(lab, second)] == [shared.cid]
    lab.cpi.delete_server_group(second)
    assert ("security_group", shared.cid) not in lab.inventory()


@proves("update_server_group")
def test_security_groups_can_be_exchanged(lab: Lab) -> None:
    lab.needs("update_server_group")
    lab.needs_security_groups()
    cid = lab.group(security_groups=[WEB])
    lab.vm(group=cid)
    (old,) = security_groups_of(lab, cid)
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SSH]))
    (new,) = security_groups_of(lab, cid)
    assert new.cid != old.cid
    assert ("security_group", old.cid) not in lab.inventory()
    lab.cpi.update_server_group(cid, lab.metadata())
    assert security_groups_of(lab, cid) == []


@proves("update_server_group", "inspect_server_group")
def test_changed_rules_reach_the_security_group_in_place(lab: Lab) -> None:
    lab.needs("update_server_group")
    lab.needs_security_groups()
    cid = lab.group(security_groups=[WIDE])
    lab.vm(group=cid)
    (before,) = security_groups_of(lab, cid)
    assert not compare_rules(read_rules(before.rules or ()), read_rules(WIDE.rules or ()))
    for rules in (NARROW, (), NARROW):
        lab.cpi.update_server_group(cid, lab.metadata(security_groups=[replace(WIDE, rules=rules)]))
        (after,) = security_groups_of(lab, cid)
        assert (after.cid, after.name) == (before.cid, WIDE.name)
        assert not compare_rules(read_rules(after.rules or ()), read_rules(rules)), after.rules
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[replace(WIDE, rules=None)]))
    assert security_groups_of(lab, cid) == [after]


@proves("create_server_group", "update_server_group")
def test_two_groups_made_at_once_give_their_security_group_each_rule_once(lab: Lab) -> None:
    lab.needs("update_server_group")
    lab.needs_security_groups()
    wanted = replace(WIDE, rules=NARROW)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: lab.group(security_groups=[wanted]), range(2))
    (one,), (other,) = security_groups_of(lab, first), security_groups_of(lab, second)
    assert one == other
    requested = [rule for rule in read_rules(one.rules or ()) if rule.direction == "ingress"]
    assert sorted(map(str, requested)) == sorted(str(rule) for rule in read_rules(NARROW))


@proves("create_server_group", "update_server_group", "delete_server_group")
def test_a_security_group_that_only_bears_a_copy_of_our_mark_stays(lab: Lab) -> None:
    """The cloud's ids of what was created are recorded; a mark alone deletes nothing."""
    lab.needs("update_server_group", "survey", "delete_object")
    lab.needs_security_groups()
    mark = lab.mark()
    cid = lab.group(mark=mark, security_groups=[WEB])
    (ours,) = security_groups_of(lab, cid)
    copy = lab.operator.copy("security_group", ours.cid)
    assert copy
    lab.undo(lab.operator.delete, "security_group", copy)
    lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SSH]))
    lab.cpi.delete_server_group(cid)
    assert lab.operator.exists("security_group", copy)
    assert not lab.operator.exists("security_group", ours.cid)
    listed = [one for one in lab.cpi.survey("security_group", mark.director).objects if one.cid == copy]
    for found in listed:
        expected = Expected(found.mark, found.created_at, found.etag)
        expect_error(Changed, partial(lab.cpi.delete_object, "security_group", copy, expected))
    assert lab.operator.exists("security_group", copy)


@proves("inspect_server_group")
def test_a_security_group_deleted_behind_our_back_is_drift(lab: Lab) -> None:
    lab.needs("inspect_server_group")
    lab.needs_security_groups()
    cid = lab.group(security_groups=[WEB])
    lab.operator.delete("security_group", security_groups_of(lab, cid)[0].cid)
    view = lab.cpi.inspect_server_group(cid)
    assert view.state == "drifted"
    assert view.notes


@proves("create_server_group")
def test_a_group_may_be_nothing_but_security_groups(lab: Lab) -> None:
    lab.needs("create_server_group")
    lab.needs_security_groups()
    mark = lab.mark()
    metadata = replace(lab.metadata(security_groups=[WEB]), policy=None)
    cid = lab.cpi.create_server_group(metadata, mark=mark)
    lab.undo(lab.cpi.delete_server_group, cid)
    view = lab.cpi.inspect_server_group(cid)
    assert view.policy is None
    vm = lab.vm(group=cid)
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members] == [vm]


@proves("create_server_group")
def test_a_cloud_without_security_groups_refuses_them(lab: Lab) -> None:
    """Silently leaving a firewall out would be worse than any error."""
    lab.needs("create_server_group")
    if lab.has_security_groups:
        assert security_groups_of(lab, lab.group(security_groups=[WEB]))
        return
    expect_error(
        NotSupported, lambda: lab.cpi.create_server_group(lab.metadata(security_groups=[WEB]), mark=lab.mark())
    )
