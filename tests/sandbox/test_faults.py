"""Every fault mode: what is done, what is answered, how often, and to which calls."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox import calls, disks, faults, server_groups, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.errors import (
    INJECTABLE,
    AnswerLost,
    BadRequest,
    Failed,
    NoSuch,
    SandboxError,
    Throttled,
)
from coterie.sandbox.methods import names, read_pattern
from coterie.sandbox.pages import Filter
from coterie.sandbox.vm_shape import get_vm, list_vms

from .world import World


def disk(world: World, name: str = "d", **more: Any) -> disks.Disk:
    return disks.create_disk(world.account, name=name, size_mb=1, **more)


def present(world: World) -> list[str]:
    return [one.name for one in disks.list_disks(world.account).items]


def test_error_does_nothing_and_is_over_after_its_times(world: World) -> None:
    faults.add(world.store, "create_disk", "error", times=2)
    for _ in range(2):
        with pytest.raises(Failed) as caught:
            disk(world)
        assert caught.value.retryable
    assert present(world) == []
    disk(world)
    assert faults.list_faults(world.store) == []


@pytest.mark.parametrize("code", INJECTABLE)
def test_an_error_can_be_of_any_code(world: World, code: str) -> None:
    faults.add(world.store, "create_disk", "error", code=code, retryable=True)
    with pytest.raises(INJECTABLE[code]) as caught:
        disk(world)
    assert caught.value.retryable is True


def test_throttle_says_when_to_come_back(world: World) -> None:
    faults.add(world.store, "create_disk", "throttle", ms=1500)
    with pytest.raises(Throttled) as caught:
        disk(world)
    assert caught.value.details == {"retry_after": 1.5}
    assert present(world) == []


def test_latency_delays_the_work(world: World) -> None:
    faults.add(world.store, "*", "latency", ms=250)
    disk(world)
    assert world.clock.slept == [0.25]


def test_a_lost_answer_before_the_commit_means_nothing_was_done(world: World) -> None:
    faults.add(world.store, "create_disk", "timeout-before-commit", times=1)
    with pytest.raises(AnswerLost) as caught:
        disk(world)
    assert caught.value.changing
    assert present(world) == []


def test_a_lost_answer_after_the_commit_means_it_was_done(world: World) -> None:
    faults.add(world.store, "create_disk", "timeout-after-commit", times=1)
    with pytest.raises(AnswerLost):
        disk(world, "lost")
    assert present(world) == ["lost"]


def test_a_lost_answer_of_a_question_changes_nothing(world: World) -> None:
    faults.add(world.store, "list_disks", "timeout-after-commit", times=1)
    with pytest.raises(AnswerLost) as caught:
        disks.list_disks(world.account)
    assert not caught.value.changing


def test_twice_makes_two_unless_a_token_says_they_are_one(world: World) -> None:
    faults.add(world.store, "create_disk", "twice")
    disk(world, "plain")
    disk(world, "token", client_token="t")
    assert present(world) == ["plain", "plain", "token"]


def test_twice_answers_a_deletion_as_the_second_sees_it(world: World) -> None:
    made = disk(world)
    faults.add(world.store, "delete_disk", "twice")
    with pytest.raises(NoSuch):
        disks.delete_disk(world.account, made.id)
    assert present(world) == []


def test_an_error_may_be_answered_though_the_work_was_done(world: World) -> None:
    faults.add(world.store, "create_disk", "error-after-commit", times=1)
    with pytest.raises(Failed):
        disk(world, "made")
    assert present(world) == ["made"]


def test_late_visibility_hides_from_lists_but_not_from_ids_and_tokens(world: World) -> None:
    faults.add(world.store, "create_disk", "late-visibility", ms=500, times=1)
    made = disk(world, "late", tags={"a": "b"}, client_token="t")
    assert present(world) == []
    assert disks.list_disks(world.account, Filter(tag=("a", "b"))).items == ()
    assert disks.list_disks(world.account, Filter(name="late")).items == ()
    assert disks.get_disk(world.account, made.id) == made
    assert disk(world, "late", client_token="t") == made
    world.clock.now += 0.5
    assert present(world) == ["late"]


def test_a_vm_can_end_in_error(world: World) -> None:
    faults.add(world.store, "create_vm", "vm-error-state", times=1)
    vm = world.boot()
    assert vm.state == "error"
    assert vm.host
    vms.delete_vm(world.account, vm.id)
    assert world.boot().state == "running"


def test_a_vm_can_build_slowly(world: World) -> None:
    faults.add(world.store, "create_vm", "slow-build", ms=3000, times=1)
    vm = world.boot()
    assert vm.state == "building"
    world.clock.now += 3
    assert get_vm(world.account, vm.id).state == "running"


def test_match_looks_at_names_tags_and_the_object_itself(world: World) -> None:
    faults.add(world.store, "create_disk", "error", match="broker")
    faults.add(world.store, "delete_disk", "error", match="needle")
    other = disk(world, "zookeeper")
    tagged = disk(world, "x", tags={"why": "a needle in it"})
    for name, tags in (("broker-0", {}), ("x", {"job": "my broker"})):
        with pytest.raises(Failed):
            disk(world, name, tags=tags)
    disks.delete_disk(world.account, other.id)
    with pytest.raises(Failed):
        disks.delete_disk(world.account, tagged.id)


def test_a_glob_bends_all_that_it_names(world: World) -> None:
    faults.add(world.store, "create_*", "error")
    with pytest.raises(Failed):
        disk(world)
    with pytest.raises(Failed):
        server_groups.create_server_group(world.account, name="g")
    assert present(world) == []


def test_several_faults_add_up(world: World) -> None:
    faults.add(world.store, "create_disk", "latency", ms=100)
    faults.add(world.store, "create_disk", "error", times=1)
    with pytest.raises(Failed):
        disk(world)
    assert world.clock.slept == [0.1]


def test_a_hang_lasts_until_its_time_is_over(world: World) -> None:
    faults.add(world.store, "create_disk", "hang", ms=1000, times=1)
    disk(world)
    assert sum(world.clock.slept) == pytest.approx(1.0, abs=0.05)
    assert faults.list_faults(world.store) == []


def test_a_hang_lasts_until_another_releases_it(tmp_path: Path) -> None:
    """Removing the fault is what lets the call go on, and others work meanwhile."""
    datacenter = open_datacenter(tmp_path / "state.db")
    account = open_account(datacenter, "lab")
    faults.add(datacenter.store, "create_disk", "hang", match="stuck", times=1)
    done = threading.Event()

    def create() -> None:
        disks.create_disk(account, name="stuck", size_mb=1)
        done.set()

    thread = threading.Thread(target=create)
    thread.start()
    while not any(fault.times == 0 for fault in faults.list_faults(datacenter.store)):
        pass
    disks.create_disk(account, name="free", size_mb=1)
    assert not done.is_set()
    assert [one.name for one in disks.list_disks(account).items] == ["free"]
    assert faults.clear(datacenter.store) == 1
    thread.join(60)
    assert done.is_set()


def test_faults_are_set_by_one_and_met_by_another(world: World, tmp_path: Path) -> None:
    other = open_datacenter(tmp_path / "state.db")
    added = faults.add(other.store, "create_disk", "error")
    with pytest.raises(Failed):
        disk(world)
    faults.clear(other.store, added.id)
    disk(world)


def test_operators_are_spared(world: World) -> None:
    faults.add(world.store, "*", "error")
    operator = open_account(world.datacenter, "lab", operator=True)
    assert disks.create_disk(operator, name="d", size_mb=1).name == "d"


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "explode"},
        {"mode": "error", "times": 0},
        {"mode": "latency"},
        {"mode": "latency", "ms": -1},
        {"mode": "error", "code": "nonsense"},
        {"mode": "throttle", "code": "failed"},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(world: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as caught:
        faults.add(world.store, "create_disk", **wrong)
    assert caught.value.remedy


def test_calls_are_known_by_name_glob_and_boshs_words() -> None:
    assert read_pattern("create_vm") == "create_vm"
    assert read_pattern("create_*") == "create_*"
    assert read_pattern("create_stemcell") == "create_image"
    with pytest.raises(BadRequest, match="create_wm") as caught:
        read_pattern("create_wm")
    assert "create_vm" in caught.value.remedy
    assert {"create_vm", "write_members", "list_hosts", "set_tags"} <= set(names())


def test_the_log_counts_calls_while_it_is_on(world: World) -> None:
    disk(world)
    calls.switch_log(world.store, True)
    disk(world)
    disk(world)
    faults.add(world.store, "create_disk", "error", times=1)
    with pytest.raises(SandboxError):
        disk(world)
    with pytest.raises(NoSuch):
        disks.get_disk(world.account, "none")
    list_vms(world.account)
    found = calls.counts(world.store, "lab")
    assert found["create_disk"] == calls.Count(calls=3, failed=1)
    assert found["get_disk"] == calls.Count(calls=1, failed=1)
    assert found["list_vms"] == calls.Count(calls=1, failed=0)
    assert calls.counts(world.store, "other") == {}
    assert [entry.error for entry in calls.entries(world.store)] == [None, None, "failed", "no_such", None]
    calls.switch_log(world.store, False)
    disk(world)
    assert len(calls.entries(world.store)) == 5
    calls.forget(world.store)
    assert calls.entries(world.store) == []
