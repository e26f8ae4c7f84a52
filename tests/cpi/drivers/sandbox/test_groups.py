"""The life of a server group: before its first VM, with members, after the last, and behind our back."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMissing,
    InvalidCall,
    NameTaken,
    NotSupported,
    OutcomeUnknown,
    QuotaExceeded,
    SecurityGroup,
)
from coterie.sandbox import server_groups, vms
from coterie.sandbox.fit import Demand
from coterie.sandbox.labels import list_labels
from coterie.sandbox.quotas import set_quota
from coterie.sandbox.reshape import delete_group, set_group_policy, set_host_group
from coterie.sandbox.security_groups import create_security_group, delete_security_group, list_security_groups
from coterie.sandbox.server_groups import create_server_group, list_server_groups
from coterie.sandbox.vm_shape import get_vm

from .lab import Lab


def holders(lab: Lab) -> int:
    return len(list_labels(lab.operator).items) + len(list_server_groups(lab.operator).items)


def guard_names(lab: Lab) -> list[str]:
    return [group.name for group in list_security_groups(lab.operator).items]


def foreign_vm(lab: Lab, **more: Any) -> str:
    size = Demand(1, 1, 1, "z1")
    return vms.create_vm(lab.operator, name="theirs", size=size, image=lab.stemcell, **more).id


def test_a_group_is_made_before_its_first_vm(lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.cpi.create_server_group(lab.metadata("anti-affinity"), mark=mark)
    assert cid == mark.group_cid
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, view.policy, view.members, view.notes) == ("live", "anti-affinity", (), ())
    (resource,) = view.resources
    assert (resource.kind, resource.az, resource.created_by_us) == ("server_group", None, True)
    assert server_groups.get_server_group(lab.operator, resource.cid).name == cid


def test_where_groups_cannot_be_empty_it_is_reserved_until_the_first_join(lists: Lab) -> None:
    cid = lists.group("anti-affinity")
    view = lists.cpi.inspect_server_group(cid)
    assert (view.state, view.policy, view.resources) == ("reserved", "anti-affinity", ())
    vm, far = lists.vm(cid), lists.vm(cid, zone="z2")
    view = lists.cpi.inspect_server_group(cid)
    assert view.state == "live"
    assert {(one.kind, one.az, one.created_by_us) for one in view.resources} == {
        ("server_group", "z1", True),
        ("server_group", "z2", True),
    }
    assert {member.vm_cid for member in view.members} == {vm, far}
    lists.cpi.delete_vm(vm)
    lists.cpi.delete_vm(far)
    assert lists.cpi.inspect_server_group(cid).state == "reserved"


def test_members_are_shown_with_host_and_owner(either: Lab) -> None:
    cid = either.group()
    vm = either.vm(cid)
    (member,) = either.cpi.inspect_server_group(cid).members
    assert (member.vm_cid, member.host, member.ours) == (vm, get_vm(either.operator, vm).host, True)


def test_one_mark_makes_one_group_however_many_ask(either: Lab) -> None:
    mark, metadata = either.mark(), either.metadata(security_group_names=["web"])
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(either.open().create_server_group(metadata, mark=mark)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [mark.group_cid] * 8
    assert holders(either) == 1
    assert guard_names(either) == ["web"]


def test_a_group_that_shows_late_is_waited_for(either: Lab) -> None:
    either.fault("create_*", "late-visibility", ms=100, times=1)
    cid = either.group()
    assert either.vm(cid)


def test_a_group_that_does_not_show_in_time_is_an_unknown_outcome(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"settle_s": 0.05})
    mark = lab.mark()
    lab.fault("create_server_group", "late-visibility", ms=3_600_000, times=1)
    with pytest.raises(OutcomeUnknown):
        lab.cpi.create_server_group(lab.metadata(), mark=mark)


def test_a_lost_answer_is_completed_by_the_repeat(either: Lab) -> None:
    mark = either.mark()
    for method in ("create_server_group", "create_label"):
        either.fault(method, "timeout-after-commit", times=1)
    with pytest.raises(OutcomeUnknown):
        either.cpi.create_server_group(either.metadata(security_group_names=["web"]), mark=mark)
    either.clear()
    assert either.cpi.find("server_group", mark)
    cid = either.cpi.create_server_group(either.metadata(security_group_names=["web"]), mark=mark)
    assert holders(either) == 1
    assert len(either.cpi.inspect_server_group(cid).resources) >= 1


def test_a_certain_failure_leaves_no_security_group_behind(lab: Lab) -> None:
    set_quota(lab.operator.datacenter, "lab", "server_groups", 0)
    with pytest.raises(QuotaExceeded):
        lab.group(security_group_names=["web"])
    assert (holders(lab), guard_names(lab)) == (0, [])


def test_a_second_security_group_that_fails_takes_the_first_along(lab: Lab) -> None:
    set_quota(lab.operator.datacenter, "lab", "security_groups", 1)
    with pytest.raises(QuotaExceeded):
        lab.group(security_group_names=["web", "ssh"])
    assert (holders(lab), guard_names(lab)) == (0, [])


def test_an_impossible_policy_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"policies": ["affinity"]})
    with pytest.raises(NotSupported) as caught:
        lab.group("anti-affinity")
    assert "affinity" in caught.value.remedy
    with pytest.raises(InvalidCall, match=r"options\.colour"):
        lab.group("affinity", colour="blue")


def test_host_affinity_takes_hosts_or_a_host_group(either: Lab) -> None:
    named = either.group("host-affinity", hosts=["z1-r2-h2"])
    assert get_vm(either.operator, either.vm(named)).host == "z1-r2-h2"
    set_host_group(either.operator.datacenter, "fast", ["z1-r1-h2"])
    grouped = either.group("host-affinity", host_group="fast")
    assert get_vm(either.operator, either.vm(grouped)).host == "z1-r1-h2"
    for wrong in ("z1-r1-h1", 5):
        with pytest.raises(InvalidCall):
            either.group("host-affinity", hosts=wrong)


def test_a_group_of_security_groups_only_has_no_policy(either: Lab) -> None:
    cid = either.group(None, ["web"])
    vm = either.vm(cid)
    view = either.cpi.inspect_server_group(cid)
    assert (view.policy, view.state) == (None, "live")
    assert [member.vm_cid for member in view.members] == [vm]


def test_a_group_with_members_stays_whoever_they_are(either: Lab) -> None:
    cid = either.group(security_group_names=["web"])
    vm = either.vm(cid)
    before = either.cpi.inspect_server_group(cid)
    with pytest.raises(GroupInUse) as caught:
        either.cpi.delete_server_group(cid)
    assert vm in caught.value.why
    assert either.cpi.inspect_server_group(cid) == before
    either.cpi.delete_vm(vm)
    either.cpi.delete_server_group(cid)
    either.cpi.delete_server_group(cid)
    assert (holders(either), guard_names(either)) == (0, [])
    assert either.cpi.inspect_server_group(cid).state == "missing"


def test_a_foreign_member_keeps_the_group(lab: Lab) -> None:
    cid = lab.group()
    (resource,) = lab.cpi.inspect_server_group(cid).resources
    theirs = foreign_vm(lab, group=resource.cid)
    with pytest.raises(GroupInUse):
        lab.cpi.delete_server_group(cid)
    (member,) = lab.cpi.inspect_server_group(cid).members
    assert (member.vm_cid, member.ours) == (theirs, False)


def test_a_vm_that_joins_while_the_group_is_deleted_saves_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    cid = lab.group()
    look = lab.cpi.groups._require_empty
    joined: list[str] = []

    def look_then_join(wanted: str) -> None:
        look(wanted)
        if not joined:
            joined.append(lab.vm(cid))

    monkeypatch.setattr(lab.cpi.groups, "_require_empty", look_then_join)
    with pytest.raises(GroupInUse):
        lab.cpi.delete_server_group(cid)
    assert [member.vm_cid for member in lab.cpi.inspect_server_group(cid).members] == joined


def test_a_first_join_while_a_reserved_group_is_deleted_saves_it(lists: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    cid = lists.group(security_group_names=["web"])
    look = lists.cpi.groups._require_empty
    joined: list[str] = []

    def look_then_join(wanted: str) -> None:
        look(wanted)
        if not joined:
            joined.append(lists.vm(cid))

    monkeypatch.setattr(lists.cpi.groups, "_require_empty", look_then_join)
    with pytest.raises(GroupInUse):
        lists.cpi.delete_server_group(cid)
    view = lists.cpi.inspect_server_group(cid)
    assert (view.state, [member.vm_cid for member in view.members]) == ("live", joined)


def test_deleted_behind_our_back_is_missing_and_said_so(either: Lab) -> None:
    cid = either.group()
    if either.cpi.settings.single_writer:
        from coterie.sandbox.labels import delete_label

        delete_label(either.operator, list_labels(either.operator).items[0].id)
    else:
        delete_group(either.operator.datacenter, either.cpi.inspect_server_group(cid).resources[0].cid)
    view = either.cpi.inspect_server_group(cid)
    assert view.state == "missing"
    assert view.notes
    for call in (lambda: either.vm(cid), lambda: either.cpi.update_server_group(cid, either.metadata())):
        with pytest.raises(GroupMissing) as caught:
            call()
        assert "deploy again" in caught.value.remedy
    either.cpi.delete_server_group(cid)


def test_another_policy_needs_another_group(either: Lab) -> None:
    cid = either.group("affinity")
    with pytest.raises(NotSupported) as caught:
        either.cpi.update_server_group(cid, either.metadata("anti-affinity"))
    assert caught.value.remedy == "recreate the group"
    with pytest.raises(NotSupported):
        either.cpi.update_server_group(cid, either.metadata(None))
    assert either.cpi.inspect_server_group(cid).policy == "affinity"
    either.cpi.update_server_group(cid, either.metadata("affinity"))


def test_a_policy_that_was_changed_in_the_cloud_is_drift(lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    (resource,) = lab.cpi.inspect_server_group(cid).resources
    set_group_policy(lab.operator.datacenter, resource.cid, "affinity")
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, view.policy) == ("drifted", "affinity")
    assert "asked was anti-affinity" in view.notes[0]


def test_security_groups_are_adopted_made_shared_and_removed_last(lab: Lab) -> None:
    theirs = create_security_group(lab.operator, name="theirs").id
    wanted = replace(lab.metadata(), security_groups=(SecurityGroup("theirs", adopt=True), SecurityGroup("web")))
    first = lab.cpi.create_server_group(wanted, mark=lab.mark())
    second = lab.group(security_group_names=["web"])
    assert sorted(guard_names(lab)) == ["theirs", "web"]
    owned = {one.cid: one.created_by_us for one in lab.cpi.inspect_server_group(first).resources[1:]}
    assert owned.pop(theirs) is False
    assert list(owned.values()) == [True]
    vm = lab.vm(first)
    assert set(get_vm(lab.operator, vm).security_groups) == {theirs, *owned}
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_server_group(first)
    assert sorted(guard_names(lab)) == ["theirs", "web"]
    lab.cpi.delete_server_group(second)
    assert guard_names(lab) == ["theirs"]


def test_a_security_group_that_a_foreign_vm_uses_stays(lab: Lab) -> None:
    cid = lab.group(security_group_names=["web"])
    (web,) = list_security_groups(lab.operator).items
    foreign_vm(lab, security_groups=[web.id])
    lab.cpi.delete_server_group(cid)
    assert guard_names(lab) == ["web"]


def test_many_groups_that_want_one_security_group_make_one(lab: Lab) -> None:
    gate = threading.Barrier(8)
    made: list[str] = []

    def make() -> None:
        cpi = lab.open()
        gate.wait()
        made.append(cpi.create_server_group(lab.metadata(security_group_names=["web"]), mark=lab.mark()))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8
    assert guard_names(lab) == ["web"]
    for cid in made[:-1]:
        lab.cpi.delete_server_group(cid)
    assert guard_names(lab) == ["web"]
    lab.cpi.delete_server_group(made[-1])
    assert guard_names(lab) == []


def test_a_security_group_is_not_deleted_while_another_group_begins_to_use_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new user's tag changes the revision, so the deletion that did not see it is refused."""
    from coterie.cpi.drivers.sandbox import security_groups

    old = lab.group(security_group_names=["web"])
    get, made = security_groups.datacenter.get_security_group, []

    def get_then_use(account: Any, wanted: str) -> Any:
        found = get(account, wanted)
        if not made:
            made.append(lab.group(security_group_names=["web"]))
        return found

    monkeypatch.setattr(security_groups.datacenter, "get_security_group", get_then_use)
    lab.cpi.delete_server_group(old)
    monkeypatch.undo()
    assert guard_names(lab) == ["web"]
    assert lab.cpi.inspect_server_group(made[0]).state == "live"


def test_an_interrupted_deletion_lets_its_security_groups_go_when_it_is_repeated(lab: Lab) -> None:
    cid = lab.group(security_group_names=["web"])
    lab.fault("delete_server_group", "timeout-after-commit", times=1)
    with pytest.raises(OutcomeUnknown):
        lab.cpi.delete_server_group(cid)
    assert guard_names(lab) == ["web"]
    lab.cpi.delete_server_group(cid)
    assert guard_names(lab) == []


def test_an_ambiguous_security_group_is_refused_before_anything_is_made(lab: Lab) -> None:
    for _ in range(2):
        create_security_group(lab.operator, name="web")
    with pytest.raises(NameTaken, match="2 have that name") as caught:
        lab.group(security_group_names=["new", "web"])
    assert caught.value.remedy
    assert guard_names(lab) == ["web", "web"]
    assert holders(lab) == 0


def test_an_update_with_an_ambiguous_security_group_makes_nothing(lab: Lab) -> None:
    cid = lab.group()
    for _ in range(2):
        create_security_group(lab.operator, name="web")
    with pytest.raises(NameTaken):
        lab.cpi.update_server_group(cid, lab.metadata(security_group_names=["new", "web"]))
    assert guard_names(lab) == ["web", "web"]


def test_security_groups_are_exchanged_on_living_vms(either: Lab) -> None:
    cid = either.group(security_group_names=["web"])
    vm = either.vm(cid)
    (old,) = get_vm(either.operator, vm).security_groups
    either.cpi.update_server_group(cid, either.metadata(security_group_names=["ssh"]))
    (new,) = get_vm(either.operator, vm).security_groups
    assert new != old
    assert guard_names(either) == ["ssh"]
    assert get_vm(either.operator, either.vm(cid)).security_groups == (new,)
    assert either.cpi.inspect_server_group(cid).notes == ()


def test_a_security_group_that_is_gone_or_taken_off_is_drift(either: Lab) -> None:
    cid = either.group(security_group_names=["web"])
    vm = either.vm(cid)
    vms.set_vm_security_groups(either.operator, vm, [])
    view = either.cpi.inspect_server_group(cid)
    assert (view.state, len(view.notes)) == ("drifted", 1)
    assert vm in view.notes[0]
    delete_security_group(either.operator, list_security_groups(either.operator).items[0].id)
    assert any("deleted behind our back" in note for note in either.cpi.inspect_server_group(cid).notes)
    either.cpi.update_server_group(cid, either.metadata(security_group_names=["web"]))
    assert either.cpi.inspect_server_group(cid).state == "live"


def test_a_name_that_an_operator_uses_is_taken_unless_adopted(lab: Lab) -> None:
    theirs = create_server_group(lab.operator, name="data", policy="affinity")
    with pytest.raises(NameTaken):
        lab.group("affinity", name="data")
    cid = lab.group("affinity", name="data", adopt=True)
    assert cid == f"ext-{theirs.id}"
    vm = lab.vm(cid)
    view = lab.cpi.inspect_server_group(cid)
    assert (view.state, view.policy) == ("live", "affinity")
    assert [(member.vm_cid, member.ours) for member in view.members] == [(vm, True)]
    assert [resource.created_by_us for resource in view.resources] == [False]
    lab.cpi.delete_server_group(cid)
    lab.cpi.update_server_group(cid, lab.metadata("affinity"))
    lab.cpi.delete_vm(vm)
    left = server_groups.get_server_group(lab.operator, theirs.id)
    assert (left.members, left.tags) == (0, {})
    delete_group(lab.operator.datacenter, theirs.id)
    assert lab.cpi.inspect_server_group(cid).state == "missing"
    with pytest.raises(GroupMissing):
        lab.vm(cid)


def test_our_own_names_are_not_taken(lab: Lab) -> None:
    lab.group(name="data")
    assert lab.group(name="data")


def test_on_list_clouds_an_operators_group_is_adopted_by_name(lists: Lab) -> None:
    first = foreign_vm(lists)
    theirs = create_server_group(lists.operator, name="data", policy="affinity", zone="z1", members=[first])
    cid = lists.group("affinity", name="data", adopt=True)
    assert cid == "ext-data"
    vm = lists.vm(cid)
    members = {member.vm_cid: member.ours for member in lists.cpi.inspect_server_group(cid).members}
    assert members == {first: False, vm: True}
    with pytest.raises(GroupMissing):
        lists.vm(cid, zone="z2")
    lists.cpi.delete_vm(vm)
    assert server_groups.read_members(lists.operator, theirs.id) == [first]


def test_adoption_is_refused_where_it_would_lie(lab: Lab) -> None:
    create_server_group(lab.operator, name="data", policy="affinity")
    for error, policy, security_group_names, options in (
        (InvalidCall, "affinity", (), {"adopt": True}),
        (GroupMissing, "affinity", (), {"adopt": True, "name": "other"}),
        (InvalidCall, "anti-affinity", (), {"adopt": True, "name": "data"}),
        (InvalidCall, "affinity", ("web",), {"adopt": True, "name": "data"}),
    ):
        with pytest.raises(error) as caught:
            lab.group(policy, security_group_names, **options)
        assert caught.value.remedy
    create_server_group(lab.operator, name="data", policy="affinity")
    with pytest.raises(GroupMissing, match="2 server groups are named"):
        lab.group("affinity", name="data", adopt=True)
    with pytest.raises(CpiError):
        lab.cpi.update_server_group("ext-x", lab.metadata(security_group_names=["web"]))


def test_one_datacenter_has_one_group_per_cloud(tmp_path: Path) -> None:
    """Two accounts are two clouds: neither sees the other's group."""
    here, there = Lab(tmp_path, {"account": "here"}), Lab(tmp_path, {"account": "there"})
    cid = here.group()
    assert there.cpi.inspect_server_group(cid).state == "missing"
    assert there.cpi.survey("server_group", there.director).objects == ()
