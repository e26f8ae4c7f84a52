"""The life of a server group on a cloud in memory: adoption, repeats, changes, deletion, and undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from kit.group_cloud import DIRECTOR, MemoryCloud

from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMetadata,
    GroupMissing,
    InvalidCall,
    NameTaken,
    NotSupported,
    OutcomeUnknown,
    SecurityGroup,
    Throttled,
)
from coterie.cpi.kit.group_records import GroupRecord
from coterie.cpi.kit.server_groups import ExistingGroup, Membership, RecordedGroup
from coterie.slotted import replace

WEB = SecurityGroup("web", ({"ports": "80"},))


@pytest.fixture
def cloud() -> MemoryCloud:
    return MemoryCloud()


def metadata(policy: str | None = "anti-affinity", *names: SecurityGroup, **options: Any) -> GroupMetadata:
    return GroupMetadata({}, "d", "g", security_groups=names, policy=policy, options=options)


def test_a_repeat_creates_nothing_twice(cloud: MemoryCloud) -> None:
    mark = cloud.mark()
    for _ in range(2):
        assert cloud.server_groups.create(metadata("anti-affinity", WEB), mark) == mark.group_cid
    assert len(cloud.groups.groups) == len(cloud.store.records) == len(cloud.security.named) == 1
    view = cloud.server_groups.inspect(mark.group_cid)
    assert (view.state, view.policy) == ("live", "anti-affinity")
    assert [(one.kind, one.created_by_us) for one in view.resources] == [
        ("server_group", True),
        ("security_group", True),
    ]


def test_without_security_groups_there_is_no_record(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata(), cloud.mark())
    assert not cloud.store.records
    assert cloud.server_groups.membership({"bosh": {"server_group_cid": cid}}) == Membership(
        cid, "id-0", "anti-affinity", ()
    )


def test_without_a_policy_there_is_a_record_only(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata(None, WEB), cloud.mark())
    assert not cloud.groups.groups
    cloud.groups.tagged[cid] = ["vm-1"]
    assert cloud.server_groups.list_recorded_only(DIRECTOR, list) == [RecordedGroup(cid, ("vm-1",))]
    assert cloud.server_groups.list_recorded_only(DIRECTOR, lambda: [cid]) == []
    unneeded = cast(Callable[[], list[str]], None)
    assert cloud.server_groups.list_recorded_only("another", unneeded) == []
    with pytest.raises(GroupInUse, match="1 members"):
        cloud.server_groups.delete(cid)
    cloud.groups.tagged.clear()
    cloud.server_groups.delete(cid)
    assert not cloud.store.records and not cloud.security.named


def test_a_group_that_is_gone_is_missing(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    cloud.groups.groups.clear()
    assert cloud.server_groups.inspect(cid).state == "missing"
    with pytest.raises(GroupMissing):
        cloud.server_groups.membership({"bosh": {"server_group_cid": cid}})
    with pytest.raises(GroupMissing):
        cloud.server_groups.update(cid, metadata("anti-affinity"))
    assert cloud.server_groups.membership({}) is None


def test_a_security_group_that_is_gone_is_noted(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    cloud.security.named.clear()
    view = cloud.server_groups.inspect(cid)
    assert view.state == "drifted" and "sg-1 was deleted" in view.notes[0]


def test_the_hosts_that_a_group_names_are_shown(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata(), cloud.mark())
    assert cloud.server_groups.inspect(cid).hosts is None
    cloud.groups.groups = [replace(cloud.groups.groups[0], hosts=("h1", "h2"))]
    assert cloud.server_groups.inspect(cid).hosts == ("h1", "h2")


def test_adoption_takes_the_one_group_of_that_name_and_policy(cloud: MemoryCloud) -> None:
    cloud.groups.groups = [ExistingGroup("a", "theirs", "anti-affinity", is_ours=False)]
    assert cloud.server_groups.create(metadata(name="theirs", adopt=True), cloud.mark()) == "ext-a"
    cloud.server_groups.delete("ext-a")
    cloud.server_groups.update("ext-a", metadata())
    assert not cloud.server_groups.inspect("ext-a").resources[0].created_by_us
    with pytest.raises(InvalidCall, match="takes no security groups"):
        cloud.server_groups.update("ext-a", metadata("anti-affinity", WEB))
    with pytest.raises(InvalidCall, match="has policy anti-affinity"):
        cloud.server_groups.create(metadata("soft-anti-affinity", name="theirs", adopt=True), cloud.mark())
    with pytest.raises(NameTaken):
        cloud.server_groups.create(metadata(name="theirs"), cloud.mark())
    with pytest.raises(GroupMissing, match="no server group 'other'"):
        cloud.server_groups.create(metadata(name="other", adopt=True), cloud.mark())
    cloud.groups.groups *= 2
    with pytest.raises(GroupMissing, match="2 server groups"):
        cloud.server_groups.create(metadata(name="theirs", adopt=True), cloud.mark())


def test_a_change_is_recorded_before_members_change_and_can_be_repeated(cloud: MemoryCloud) -> None:
    cid = cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    cloud.groups.fails = CpiError("a VM does not stop")
    new = metadata("anti-affinity", SecurityGroup("db"))
    with pytest.raises(CpiError):
        cloud.server_groups.update(cid, new)
    assert [one.security_groups for one in cloud.store.records] == [("sg-1",), ("sg-2",)]
    cloud.groups.fails = None
    cloud.server_groups.update(cid, new)
    assert cloud.groups.exchanged == [({"sg-1", "sg-2"}, {"sg-2"})]
    assert [one.security_groups for one in cloud.store.records] == [("sg-2",)]
    assert list(cloud.security.named) == ["db"]
    with pytest.raises(NotSupported, match="for life"):
        cloud.server_groups.update(cid, metadata("soft-anti-affinity"))


def test_too_many_security_groups_are_refused_before_anything_is_created(cloud: MemoryCloud) -> None:
    names = [SecurityGroup(name) for name in "abc"]
    with pytest.raises(InvalidCall, match="has 3 security groups"):
        cloud.server_groups.create(metadata("anti-affinity", *names), cloud.mark())
    assert not cloud.security.named


@pytest.mark.parametrize("where", ["groups", "store"])
def test_after_a_certain_failure_nothing_stays(cloud: MemoryCloud, where: str) -> None:
    getattr(cloud, where).fails = CpiError("no")
    with pytest.raises(CpiError, match="no"):
        cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    assert not cloud.groups.groups and not cloud.security.named and not cloud.store.records


def test_after_an_uncertain_failure_everything_stays(cloud: MemoryCloud) -> None:
    cloud.store.fails = OutcomeUnknown("lost")
    with pytest.raises(OutcomeUnknown, match="lost"):
        cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    assert cloud.groups.groups and cloud.security.named


@pytest.mark.parametrize(
    ("error", "raised"), [(CpiError("no"), CpiError), (Throttled("later", remedy="wait"), OutcomeUnknown)]
)
def test_a_group_that_another_call_created_stays(cloud: MemoryCloud, error: CpiError, raised: type[CpiError]) -> None:
    """A permanent error stays permanent; after one that a repeat may mend, the group is there, so all is not undone."""
    mark = cloud.mark()
    cloud.groups.groups = [ExistingGroup("a", mark.group_cid, "anti-affinity")]
    cloud.store.fails = error
    with pytest.raises(CpiError, match=str(error.what)) as caught:
        cloud.server_groups.create(metadata("anti-affinity", WEB), mark)
    assert type(caught.value) is raised
    assert cloud.groups.groups and cloud.security.named


@pytest.mark.parametrize("policy", ["anti-affinity", None])
def test_a_repeat_that_fails_leaves_a_finished_group_alone(
    cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch, policy: str | None
) -> None:
    mark = cloud.mark()
    cid = cloud.server_groups.create(metadata(policy, WEB), mark)
    monkeypatch.setattr(cloud.security, "find_named", _throttled)
    with pytest.raises(OutcomeUnknown, match="not as requested"):
        cloud.server_groups.create(metadata(policy, WEB), mark)
    assert cloud.records.find(cid) and cloud.security.named
    assert len(cloud.groups.groups) == (1 if policy else 0)


@pytest.mark.parametrize("sign", ["record", "member"])
def test_a_group_that_another_call_uses_already_is_not_undone(cloud: MemoryCloud, sign: str) -> None:
    """This call created it; another call under its mark found and finished it, before this one failed."""
    mark = cloud.mark()

    def add_record(record: GroupRecord) -> None:
        if sign == "record":
            cloud.store.records.append(record)
        else:
            cloud.groups.tagged[mark.group_cid] = ["vm-1"]
        raise CpiError("no")

    cloud.store.add_record = add_record  # type: ignore[method-assign] # a failure at just this moment
    with pytest.raises(OutcomeUnknown, match="not as requested"):
        cloud.server_groups.create(metadata("anti-affinity", WEB), mark)
    assert cloud.groups.groups and cloud.security.named


def test_an_update_without_security_groups_lists_none(cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cid = cloud.server_groups.create(metadata(), cloud.mark())
    monkeypatch.setattr(cloud.security, "list_marked", _throttled)
    cloud.server_groups.update(cid, metadata())


def test_a_foreign_group_of_our_name_is_left_alone(cloud: MemoryCloud) -> None:
    mark = cloud.mark()
    cloud.groups.groups = [ExistingGroup("a", mark.group_cid, "soft-anti-affinity", is_ours=False)]
    with pytest.raises(NameTaken):
        cloud.server_groups.create(metadata("anti-affinity", WEB), mark)
    assert not cloud.security.named
    with pytest.raises(GroupInUse, match="not ours"):
        cloud.server_groups.delete(mark.group_cid)


def test_security_groups_shared_with_another_server_group_outlive_the_first(cloud: MemoryCloud) -> None:
    first, second = (cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark()) for _ in range(2))
    cloud.server_groups.delete(first)
    assert cloud.records.holders() == {"sg-1": (second,)}
    with pytest.raises(GroupInUse, match="belongs to 1"):
        cloud.security_groups.delete("sg-1")
    cloud.server_groups.delete(second)
    assert not cloud.security.named


def test_lists_that_lag_keep_no_security_group_alive(cloud: MemoryCloud) -> None:
    other = cloud.server_groups.create(metadata("anti-affinity", SecurityGroup("other")), cloud.mark())
    cid = cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    cloud.store.late = list(cloud.store.records)
    cloud.server_groups.update(cid, metadata("anti-affinity", SecurityGroup("new")))
    assert sorted(cloud.security.named) == ["new", "other"]
    cloud.server_groups.delete(cid)
    assert list(cloud.security.named) == ["other"]
    cloud.security_groups.release(["sg-1"], other)
    assert list(cloud.security.named) == ["other"]


def test_joining_reads_the_records_of_one_group(cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each VM costs as much as there are server groups."""
    cid = cloud.server_groups.create(metadata("anti-affinity", WEB), cloud.mark())
    monkeypatch.setattr(cloud.store, "list_records", _throttled)
    membership = cloud.server_groups.membership({"bosh": {"server_group_cid": cid}})
    assert membership and membership.security_groups == ("sg-1",)


def test_the_record_with_the_highest_number_counts(cloud: MemoryCloud) -> None:
    cloud.store.records = [GroupRecord("cg", 10, None, ("b",)), GroupRecord("cg", 9, None, ("a",))]
    assert cloud.records.newest()["cg"].security_groups == ("b",)
    cloud.records.write("cg", None, ("b",))
    assert len(cloud.store.records) == 2
    cloud.records.delete_older("cg")
    assert [one.number for one in cloud.store.records] == [10]


def _throttled(*arguments: object) -> Any:
    raise Throttled("too many requests", remedy="wait")
