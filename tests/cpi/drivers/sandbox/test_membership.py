"""Lists of members with one writer: with the coordinator nothing is lost, and foreign writes are noticed."""

from __future__ import annotations

import fcntl
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import (
    Cpi,
    CpiError,
    GroupMissing,
    Json,
    Mark,
    NoPlacement,
    OutcomeUnknown,
    VMCreationFailed,
)
from coterie.cpi.drivers.sandbox.account import of_group
from coterie.ids import Ids
from coterie.sandbox import server_groups, vms
from coterie.sandbox.calls import counts, switch_log
from coterie.sandbox.fit import Demand
from coterie.sandbox.labels import delete_label, list_labels
from coterie.sandbox.vm_shape import list_vms

from .lab import DIRECTOR, Lab


class FileLocked:
    """A coordinator for many processes: the lock of a file is the right to write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        with self.path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return cpi.apply(domain, [change])[0]

    def hold(self, domain: str) -> None:
        """Held by the lock of the file."""


class Uncoordinated:
    """What happens without a coordinator: all writers read the list, then all of them write it."""

    def __init__(self, lab: Lab, writers: threading.Barrier) -> None:
        self.lab = lab
        self.writers = writers

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        account = self.lab.operator
        (group,) = server_groups.list_server_groups(account, of_group(change["group"])).items
        present = server_groups.read_members(account, group.id)
        self.writers.wait()
        server_groups.write_members(account, group.id, [*present, change["vm"]])
        return {"ok": True}


def change(cid: str, vm: str, zone: str = "z1") -> Json:
    return {"op": "join", "group": cid, "zone": zone, "vm": vm}


def stopped(lab: Lab) -> str:
    size = Demand(1, 1, 1, "z1")
    return vms.create_vm(lab.operator, name="v", size=size, image=lab.stemcell, start=False).id


def members(lab: Lab, cid: str) -> set[str]:
    return {member.vm_cid for member in lab.cpi.inspect_server_group(cid).members}


def at_once(lab: Lab, cid: str, count: int) -> list[str]:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(lab.vm(cid, cpi=lab.open()))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == count
    return made


def test_without_a_coordinator_members_are_lost_and_with_one_they_are_not(tmp_path: Path) -> None:
    careless = Lab(tmp_path / "careless", {"groups": "single-writer"})
    cid = careless.group()
    careless.vm(cid)
    careless.coordinator = Uncoordinated(careless, threading.Barrier(4))
    lost = at_once(careless, cid, 4)
    assert len(members(careless, cid) & set(lost)) == 1

    careful = Lab(tmp_path / "careful", {"groups": "single-writer"})
    cid = careful.group()
    first = careful.vm(cid)
    joined = at_once(careful, cid, 12)
    assert members(careful, cid) == {first, *joined}


def boot_some(state: Path, stemcell: str, cid: str, number: int) -> None:
    lab = Lab(state, {"groups": "single-writer"}, coordinator=FileLocked(state / "lock"))
    for index in range(5):
        networks = {"n": {"type": "manual", "ip": f"127.8.{number}.{index + 1}"}}
        lab.cpi.create_vm(
            "a",
            stemcell,
            {"zone": "z1", "cpu": 1, "ram_mb": 64},
            networks,
            [],
            {"bosh": {"server_group_cid": cid}},
            mark=Mark(DIRECTOR, Ids().intent()),
        )


def test_many_processes_lose_no_member(lists: Lab) -> None:
    cid = lists.group()
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=boot_some, args=(lists.folder, lists.stemcell, cid, number)) for number in range(6)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 6
    assert members(lists, cid) == {vm.id for vm in list_vms(lists.operator).items}
    assert len(members(lists, cid)) == 30
    assert len(server_groups.list_server_groups(lists.operator).items) == 1


def test_strict_members_of_a_list_are_apart(lists: Lab) -> None:
    cid = lists.group("anti-affinity")
    made = at_once(lists, cid, 4)
    hosts = {member.host for member in lists.cpi.inspect_server_group(cid).members}
    assert len(hosts) == 4
    with pytest.raises(NoPlacement, match="4 already hold a member"):
        lists.vm(cid)
    assert {vm.id for vm in list_vms(lists.operator).items} == set(made)
    assert members(lists, cid) == set(made)


def test_a_batch_is_read_once_and_written_once(lists: Lab) -> None:
    cid = lists.group()
    lists.vm(cid)
    waiting = [stopped(lists) for _ in range(5)]
    store = lists.operator.datacenter.store
    switch_log(store, True)
    outcomes = lists.cpi.apply("lab/z1", [change(cid, vm) for vm in waiting])
    assert outcomes == [{"ok": True}] * 5
    assert counts(store)["write_members"].calls == 1
    assert counts(store)["read_members"].calls == 2
    assert members(lists, cid) > set(waiting)


def test_changes_of_several_groups_and_repeats_in_one_batch(lists: Lab) -> None:
    first, second = lists.group(), lists.group()
    one, two = stopped(lists), stopped(lists)
    batch = [change(first, one), change(second, two), change(first, one), change("cg-none", two)]
    outcomes = lists.cpi.apply("lab/z1", batch)
    assert [outcome["ok"] for outcome in outcomes] == [True, True, True, False]
    assert outcomes[3]["error"]["code"] == "group_missing"
    assert (members(lists, first), members(lists, second)) == ({one}, {two})


def test_foreign_members_survive_our_writes(lists: Lab) -> None:
    cid = lists.group()
    lists.vm(cid)
    theirs = stopped(lists)
    (group,) = server_groups.list_server_groups(lists.operator, of_group(cid)).items
    server_groups.write_members(
        lists.operator, group.id, [*server_groups.read_members(lists.operator, group.id), theirs]
    )
    lists.vm(cid)
    assert theirs in members(lists, cid)
    assert len(members(lists, cid)) == 3


def test_a_vm_that_is_gone_does_not_hold_up_the_others(lists: Lab) -> None:
    cid, alive, gone = lists.group(), stopped(lists), stopped(lists)
    vms.delete_vm(lists.operator, gone)
    outcomes = lists.cpi.apply("lab/z1", [change(cid, gone), change(cid, alive)])
    assert [outcome["ok"] for outcome in outcomes] == [False, True]
    assert outcomes[0]["error"]["code"] == "vm_not_found"


def test_a_write_whose_answer_is_lost_is_acknowledged_if_it_is_seen(lists: Lab) -> None:
    cid = lists.group()
    lists.vm(cid)
    vm = stopped(lists)
    lists.fault("write_members", "timeout-after-commit", times=1)
    assert lists.cpi.apply("lab/z1", [change(cid, vm)]) == [{"ok": True}]
    other = stopped(lists)
    lists.fault("write_members", "timeout-before-commit", times=1)
    (outcome,) = lists.cpi.apply("lab/z1", [change(cid, other)])
    assert outcome["ok"] is False
    assert outcome["error"]["retryable"] is True


def test_what_another_writer_overwrote_is_not_acknowledged(lists: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.cpi.drivers.sandbox import membership

    cid = lists.group()
    first = lists.vm(cid)
    write = membership.write_members

    def overwritten(account: Any, group: str, wanted: list[str]) -> None:
        write(account, group, wanted)
        write(account, group, [first])

    monkeypatch.setattr(membership, "write_members", overwritten)
    with pytest.raises(CpiError, match="another writer") as caught:
        lists.vm(cid)
    assert caught.value.retryable
    assert [vm.id for vm in list_vms(lists.operator).items] == [first]


@pytest.mark.parametrize("method", ["create_server_group", "list_server_groups", "start_vm"])
def test_a_vm_that_cannot_join_or_start_is_removed(lists: Lab, method: str) -> None:
    cid = lists.group()
    lists.fault(method, "error", times=1)
    with pytest.raises(CpiError) as caught:
        lists.vm(cid)
    assert caught.value.retryable
    assert list_vms(lists.operator).items == ()
    assert lists.cpi.inspect_server_group(cid).state == "reserved"


def test_doubt_about_a_join_is_settled_by_removing_the_vm(lists: Lab) -> None:
    class Silent:
        def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
            raise OutcomeUnknown("no answer came")

    cid = lists.group()
    lists.coordinator = Silent()
    with pytest.raises(VMCreationFailed) as caught:
        lists.vm(cid, cpi=lists.open())
    assert caught.value.retryable
    assert list_vms(lists.operator).items == ()


def test_a_group_that_goes_while_a_vm_joins_is_missing(lists: Lab) -> None:
    class Saboteur:
        def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
            delete_label(lists.operator, list_labels(lists.operator).items[0].id)
            return cpi.apply(domain, [change])[0]

    cid = lists.group()
    lists.coordinator = Saboteur()
    with pytest.raises(GroupMissing) as caught:
        lists.vm(cid, cpi=lists.open())
    assert "deploy again" in caught.value.remedy
    assert list_vms(lists.operator).items == ()


def test_a_reservation_that_goes_while_its_group_comes_into_being_is_noticed(
    lists: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coterie.cpi.drivers.sandbox import membership

    cid = lists.group()
    create = membership.create_server_group

    def create_too_late(*arguments: Any, **more: Any) -> Any:
        made = create(*arguments, **more)
        delete_label(lists.operator, list_labels(lists.operator).items[0].id)
        return made

    monkeypatch.setattr(membership, "create_server_group", create_too_late)
    with pytest.raises(GroupMissing):
        lists.vm(cid)
    assert list_vms(lists.operator).items == ()
    assert server_groups.list_server_groups(lists.operator).items == ()


def test_a_half_made_vm_is_finished_by_the_repeat(lists: Lab) -> None:
    """The process died between making the VM and joining its group."""

    class Deadly:
        def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
            raise SystemExit

    cid, mark, careful = lists.group(), lists.mark(), lists.coordinator
    lists.coordinator = Deadly()
    with pytest.raises(SystemExit):
        lists.vm(cid, mark, lists.open(), networks={})
    (half,) = list_vms(lists.operator).items
    assert (half.state, half.host, half.groups) == ("stopped", None, ())
    lists.coordinator = careful
    assert lists.vm(cid, mark, lists.open(), networks={}) == half.id
    (whole,) = list_vms(lists.operator).items
    assert whole.state == "running"
    assert members(lists, cid) == {half.id}


def test_a_lost_member_is_drift_and_an_update_brings_it_back(lists: Lab) -> None:
    cid = lists.group()
    kept, lost = lists.vm(cid), lists.vm(cid)
    (group,) = server_groups.list_server_groups(lists.operator, of_group(cid)).items
    server_groups.write_members(lists.operator, group.id, [kept])
    view = lists.cpi.inspect_server_group(cid)
    assert view.state == "drifted"
    assert any(lost in note for note in view.notes)
    lists.cpi.update_server_group(cid, lists.metadata())
    assert lists.cpi.inspect_server_group(cid).state == "live"
    assert members(lists, cid) == {kept, lost}
