"""Server groups of both models, and what the scheduler makes of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox import server_groups as groups
from coterie.sandbox import vms
from coterie.sandbox.errors import BadRequest, NoHost, NoSuch, OverQuota, RevisionDiffers
from coterie.sandbox.fit import Demand
from coterie.sandbox.quotas import get_quotas, set_quota
from coterie.sandbox.reshape import set_group_policy, set_host_group
from coterie.sandbox.vm_shape import get_vm

from .world import World, begin


def group(world: World, policy: str | None = "anti-affinity", **more: Any) -> str:
    return groups.create_server_group(world.account, name="g", policy=policy, **more).id


@pytest.fixture
def lists(tmp_path: Path) -> World:
    """A single-writer account."""
    return begin(tmp_path, groups="single-writer")


def test_strict_members_are_on_different_hosts_and_the_fifth_is_refused(world: World) -> None:
    cid = group(world)
    hosts = {world.boot(group=cid).host for _ in range(4)}
    assert len(hosts) == 4
    with pytest.raises(NoHost, match="z1: 4 hosts: 4 already hold a member"):
        world.boot(group=cid)


def test_a_member_that_leaves_makes_room(world: World) -> None:
    cid = group(world)
    members = [world.boot(group=cid) for _ in range(4)]
    vms.delete_vm(world.account, members[2].id)
    assert world.boot(group=cid).host == members[2].host


def test_affinity_keeps_members_together_until_the_host_is_full(world: World) -> None:
    cid = group(world, "affinity")
    assert {world.boot(group=cid).host for _ in range(8)} == {"z1-r1-h1"}
    with pytest.raises(NoHost, match="1 lacks cpu"):
        world.boot(group=cid)


def test_host_affinity_keeps_to_its_hosts_or_host_group(world: World) -> None:
    cid = group(world, "host-affinity", hosts=["z1-r2-h2"])
    assert world.boot(group=cid).host == "z1-r2-h2"
    set_host_group(world.datacenter, "fast", ["z1-r1-h2", "z1-r2-h1"])
    named = group(world, "host-affinity", host_group="fast")
    assert {world.boot(group=named).host for _ in range(6)} == {"z1-r1-h2", "z1-r2-h1"}
    set_host_group(world.datacenter, "fast", ["z1-r1-h1"])
    assert world.boot(group=named).host == "z1-r1-h1"
    assert world.boot(group=group(world, "host-affinity")).host


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "nearby"},
        {"policy": "affinity", "hosts": ["z1-r1-h1"]},
        {"policy": "host-affinity", "hosts": ["nowhere"]},
        {"policy": "host-affinity", "host_group": "nowhere"},
    ],
)
def test_a_group_that_makes_no_sense_is_refused(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        group(world, **wrong)


def test_a_group_may_be_deleted_with_its_members(world: World) -> None:
    cid = group(world)
    vm = world.boot(group=cid)
    groups.delete_server_group(world.account, cid)
    assert get_vm(world.account, vm.id).groups == ()
    vms.delete_vm(world.account, vm.id)


def test_joining_changes_the_revision_so_a_deletion_that_names_the_old_one_is_refused(world: World) -> None:
    cid = group(world)
    seen = groups.get_server_group(world.account, cid).revision
    world.boot(group=cid)
    with pytest.raises(RevisionDiffers):
        groups.delete_server_group(world.account, cid, revision=seen)


def test_a_group_has_a_largest_size(world: World) -> None:
    set_quota(world.datacenter, "lab", "server_group_members", 2)
    cid = group(world, "soft-anti-affinity")
    world.boot(group=cid), world.boot(group=cid)
    with pytest.raises(OverQuota, match="server_group_members"):
        world.boot(group=cid)


def test_the_operator_can_change_a_policy(world: World) -> None:
    cid = group(world)
    set_group_policy(world.datacenter, cid, "affinity")
    assert groups.get_server_group(world.account, cid).policy == "affinity"


def test_members_are_listed_with_their_hosts_page_by_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "PAGE_LIMIT", 2)
    cid = group(world, "soft-anti-affinity")
    booted = {world.boot(group=cid).id for _ in range(5)}
    seen: list[str] = []
    after = None
    while True:
        page, after = groups.list_members(world.account, cid, after)
        assert len(page) <= 2
        seen += [member.vm for member in page]
        if after is None:
            break
    assert len(seen) == 5
    assert set(seen) == booted


def test_a_list_group_cannot_be_empty_and_vanishes_with_its_last_member(lists: World) -> None:
    with pytest.raises(BadRequest, match="needs a first member"):
        group(lists)
    vm = lists.boot(start=False)
    cid = group(lists, zone="z1", members=[vm.id])
    with pytest.raises(BadRequest, match="cannot be empty"):
        groups.write_members(lists.account, cid, [])
    vms.delete_vm(lists.account, vm.id)
    with pytest.raises(NoSuch):
        groups.get_server_group(lists.account, cid)
    assert get_quotas(lists.account)["server_groups"].used == 0


def test_writing_the_list_replaces_it(lists: World) -> None:
    first, second, third = (lists.boot(start=False).id for _ in range(3))
    cid = group(lists, members=[first, second])
    groups.write_members(lists.account, cid, [second, third])
    assert set(groups.read_members(lists.account, cid)) == {second, third}
    with pytest.raises(NoSuch):
        groups.write_members(lists.account, cid, [second, "vm-none"])


def test_members_of_a_list_are_placed_by_its_policy_when_they_start(lists: World) -> None:
    made = [lists.boot(start=False).id for _ in range(4)]
    group(lists, members=made)
    assert len({vms.start_vm(lists.account, vm).host for vm in made}) == 4


def test_counters_follow_the_list(lists: World) -> None:
    """A running VM that is written in counts at once, one that is written out does not count any more."""
    running, other = lists.boot(), lists.boot(start=False)
    cid = group(lists, members=[running.id, other.id])
    assert vms.start_vm(lists.account, other.id).host != running.host
    groups.write_members(lists.account, cid, [other.id])
    late = lists.boot(start=False)
    groups.write_members(lists.account, cid, [other.id, late.id])
    started = vms.start_vm(lists.account, late.id)
    assert started.host != get_vm(lists.account, other.id).host


def test_models_do_not_mix(world: World, lists: World) -> None:
    with pytest.raises(BadRequest):
        lists.boot(group=group(lists, members=[lists.boot(start=False).id]))


def test_a_list_cannot_be_written_where_groups_are_joined(world: World) -> None:
    with pytest.raises(BadRequest, match="no list"):
        groups.write_members(world.account, group(world), ["x"])


def test_boots_one_after_another_spread_in_spite_of_the_lag(tmp_path: Path) -> None:
    """The boot call lasts as long as the lag, so the next one sees its member."""
    world = begin(tmp_path, soft_lag_ms=500)
    cid = group(world, "soft-anti-affinity")
    assert len({world.boot(group=cid).host for _ in range(4)}) == 4
    assert world.clock.slept == [0.5] * 4


def test_the_lag_hides_joins_that_are_younger(tmp_path: Path) -> None:
    """Four boots at the same moment: each sees the group as it was before, and ram alone decides."""
    world = begin(
        tmp_path, {"zones": [{"name": "z1", "racks": 1, "hosts_per_rack": 2, "ram_mb": 100_000}]}, soft_lag_ms=500
    )
    big = Demand(1, 1, 0, "z1")
    vms.create_vm(world.account, name="ballast", size=Demand(1, 50_000, 0, "z1"), image=world.image)
    cid = group(world, "soft-anti-affinity")
    moment = world.clock.now
    hosts = Counter()
    for _ in range(4):
        world.clock.now = moment
        hosts[world.boot(group=cid, size=big).host] += 1
    assert list(hosts.values()) == [4]
    world.clock.now += 1
    in_order = Counter(world.boot(group=cid, size=big).host for _ in range(4))
    assert list(in_order.values()) == [4]
    assert set(in_order) != set(hosts)
