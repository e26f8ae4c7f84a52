"""The method `cleanup` with the local ledger as evidence."""

from __future__ import annotations

import time
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ids import Ids
from coterie.ledger.rows import objects
from coterie.ledger.tables import clocks, suspects
from coterie.ledger.tables import objects as objects_table
from coterie.ledger.work import leases
from coterie.ledger.writes import execute
from coterie.sandbox import disks, faults
from coterie.sandbox.vm_shape import get_vm
from coterie.sandbox.vms import delete_vm
from tests.bosh.program import DIRECTOR, CpiFailure, Shop

DAY_S = 86_400.0
MARK = "0123456789abcdefghjkmnpqrs"


def stray(shop: Shop, intent: str) -> str:
    """A disk with our mark; the answer to its creation was lost."""
    tags = {"coterie-director": DIRECTOR, "coterie-intent": intent}
    return disks.create_disk(shop.account, name="d", size_mb=1024, zone="z1", tags=tags).id


def verdicts(report: Any, kind: str) -> dict[str, str]:
    return {found["cid"]: found["verdict"] for found in report[kind]["found"]}


def test_what_the_ledger_holds_is_kept(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group="g-web")
    shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    before = shop.inventory()
    shop.cleanup()
    assert shop.inventory() == before


@pytest.mark.parametrize("known", [None, {"disk": []}, {"vm": []}])
def test_an_object_without_a_row_is_kept_whatever_the_caller_knows(shop: Shop, known: Any) -> None:
    shop.stemcell()
    cid = stray(shop, MARK)
    report = shop.cleanup(known)
    assert verdicts(report, "disk") == {cid: "keep"}
    assert "restored from an old backup" in report["disk"]["found"][0]["reason"]
    assert shop.inventory()["disk"] == [cid]


@pytest.mark.parametrize("known", [None, {"disk": [], "image": []}])
@pytest.mark.parametrize("place", ["lost.db", "not-mounted/coterie_cpi/ledger.db"])
def test_without_a_ledger_everything_is_listed_and_nothing_deleted(shop: Shop, known: Any, place: str) -> None:
    stemcell, disk = shop.stemcell(), shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    shop.configure(ledger=str(shop.folder / place))
    report = shop.cleanup(known)
    assert (verdicts(report, "disk"), verdicts(report, "image")) == ({disk: "keep"}, {stemcell: "keep"})
    assert "name with `ledger:`" in report["disk"]["stopped"]
    assert report["vm"]["stopped"] is None
    assert shop.inventory() == {"disk": [disk], "image": [stemcell]}
    assert not (shop.folder / place).exists()


def test_groups_that_compilation_machines_left_behind_go_and_used_ones_stay(shop: Shop) -> None:
    shop.configure(groups={"compilation": True})
    stemcell, jobs = shop.stemcell(), [f"compilation-{n}b5b4a9e-1111-2222-3333-444444444444" for n in range(3)]
    cids = [shop.create_vm(job, stemcell, group=f"bosh-dep-{job}", job=job) for job in jobs]
    for cid in cids[1:]:
        shop.call("delete_vm", cid)
    assert len(shop.inventory()["server_group"]) == 3
    report = shop.cleanup()
    assert len(report["server_group"]["deleted"]) == 2
    (left,) = shop.inventory()["server_group"]
    assert get_vm(shop.account, cids[0]).groups == (left,)
    shop.call("delete_vm", cids[0])
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}


def test_the_group_of_a_killed_create_goes_with_its_machine(shop: Shop) -> None:
    stemcell = _kill_a_create(shop)
    report = shop.cleanup(dry_run=True)
    assert [verdicts(report, kind).popitem()[1] for kind in ("vm", "server_group")] == ["orphan", "orphan"]
    assert [len(cids) for cids in shop.inventory().values()] == [1, 1, 1]
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}


def test_after_the_grace_period_one_run_takes_the_machine_of_a_killed_create_and_its_group(shop: Shop) -> None:
    stemcell = _kill_a_create(shop)
    _make_old(shop)
    first = shop.cleanup(grace_s=3600)
    assert [verdicts(first, kind).popitem()[1] for kind in ("vm", "server_group")] == ["young", "young"]
    assert "goes with the last of" in first["server_group"]["found"][0]["reason"]
    _move_candidates_back(shop, 3600)
    shop.cleanup(grace_s=3600)
    assert shop.inventory() == {"image": [stemcell]}


def test_a_group_waits_for_a_machine_that_may_still_come_and_goes_when_that_is_given_up(shop: Shop) -> None:
    stemcell = _kill_a_create(shop)
    (vm,) = shop.inventory()["vm"]
    delete_vm(shop.account, vm)
    assert verdicts(shop.cleanup(), "server_group").popitem()[1] == "young"
    time.sleep(0.3)  # longer than settle_s
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}


def test_a_group_stays_as_long_as_a_machine_of_it_could_not_be_deleted(shop: Shop) -> None:
    _kill_a_create(shop)
    faults.add(shop.account.datacenter.store, "delete_vm", "error", times=1, retryable=False)
    report = shop.cleanup()
    assert (len(report["vm"]["failed"]), report["server_group"]["deleted"]) == (1, [])
    assert len(shop.inventory()["server_group"]) == 1


def _kill_a_create(shop: Shop) -> str:
    """As a call leaves it that is killed when the cloud has made the machine; its stemcell."""
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group="g-web")
    with shop.ledger() as ledger, ledger.write() as tx:
        row = sa.update(objects_table).where(objects_table.c.kind == "vm")
        tx.execute(row.values(state="intended", cid=None))
    return stemcell


def test_an_object_with_a_copied_mark_is_kept(shop: Shop) -> None:
    kept, lost = _disks(shop, 2)
    with shop.ledger() as ledger, ledger.read() as tx:
        intent = tx.execute(sa.select(objects_table.c.intent).where(objects_table.c.cid == lost)).scalar_one()
    copy = stray(shop, intent)
    report = shop.cleanup({"disk": [kept]})
    assert (verdicts(report, "disk")[copy], report["disk"]["deleted"]) == ("keep", [lost])
    assert sorted(shop.inventory()["disk"]) == sorted([kept, copy])


def test_a_copy_of_what_a_killed_call_created_is_kept(shop: Shop) -> None:
    shop.stemcell()
    with shop.ledger() as ledger, ledger.write() as tx:
        execute(tx, objects.intend(MARK, "disk", "lab", director=DIRECTOR))
    original, copy = stray(shop, MARK), stray(shop, MARK)
    report = shop.cleanup({"disk": []})
    assert (verdicts(report, "disk")[copy], report["disk"]["deleted"]) == ("keep", [original])
    assert shop.inventory()["disk"] == [copy]


def test_a_jump_of_the_clock_ends_no_grace_period(shop: Shop) -> None:
    kept, lost = _disks(shop, 2)
    _make_old(shop)
    assert verdicts(shop.cleanup({"disk": [kept]}, grace_s=3600), "disk") == {lost: "young"}
    _move_candidates_back(shop, DAY_S)
    with shop.ledger() as ledger, ledger.write() as tx:  # the machine runs on for no time
        tx.execute(clocks.update().values(at=clocks.c.at - DAY_S))
    assert verdicts(shop.cleanup({"disk": [kept]}, grace_s=3600), "disk") == {lost: "young"}
    assert sorted(shop.inventory()["disk"]) == sorted([kept, lost])


def test_with_a_list_what_is_not_on_it_goes(shop: Shop) -> None:
    stemcell = shop.stemcell()
    kept = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    lost = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    report = shop.cleanup({"disk": [kept]})
    assert report["disk"]["deleted"] == [lost]
    assert shop.inventory() == {"image": [stemcell], "disk": [kept]}


def test_a_kind_that_the_list_leaves_out_is_decided_by_the_ledger(shop: Shop) -> None:
    stemcell = shop.stemcell()
    report = shop.cleanup({"vm": []})
    assert shop.inventory() == {"image": [stemcell]}
    assert "named no image" in report["image"]["notes"][0]


def test_what_a_living_call_works_on_is_spared(shop: Shop) -> None:
    shop.stemcell()
    intent = Ids().intent()
    with shop.ledger() as ledger, ledger.write() as tx:
        execute(tx, objects.intend(intent, "disk", "lab", director=DIRECTOR))
        leases.take(tx, f"intent/{intent}", "other", 60)
    cid = stray(shop, intent)
    assert verdicts(shop.cleanup({"disk": []}), "disk") == {cid: "keep"}
    with shop.ledger() as ledger, ledger.write() as tx:
        leases.release(tx, f"intent/{intent}", "other")
    shop.cleanup({"disk": []})
    assert "disk" not in shop.inventory()


def test_a_tombstone_makes_a_late_arrival_an_orphan(shop: Shop) -> None:
    shop.stemcell()
    with shop.ledger() as ledger, ledger.write() as tx:
        execute(tx, objects.intend(MARK, "disk", "lab", director=DIRECTOR))
        execute(tx, objects.record_gone(MARK, tombstone=True))
    cid = stray(shop, MARK)
    assert shop.cleanup()["disk"]["deleted"] == [cid]


def test_the_young_are_spared(shop: Shop) -> None:
    shop.stemcell()
    kept, lost = _disks(shop, 2)
    assert verdicts(shop.cleanup({"disk": [kept]}, grace_s=3600), "disk") == {lost: "young"}


def test_what_one_run_finds_unknown_goes_in_a_run_after_the_grace_period(shop: Shop) -> None:
    kept, lost = _disks(shop, 2)
    _make_old(shop)
    first = shop.cleanup({"disk": [kept]}, grace_s=3600)
    assert verdicts(first, "disk") == {lost: "young"}
    assert "finds the same" in first["disk"]["found"][0]["reason"]
    _move_candidates_back(shop, 1800)
    assert shop.cleanup({"disk": [kept]}, grace_s=3600)["disk"]["deleted"] == []
    _move_candidates_back(shop, 1800)
    assert shop.cleanup({"disk": [kept]}, grace_s=3600)["disk"]["deleted"] == [lost]


def test_an_object_that_a_run_knows_again_begins_anew(shop: Shop) -> None:
    kept, lost = _disks(shop, 2)
    _make_old(shop)
    shop.cleanup({"disk": [kept]}, grace_s=3600)
    _move_candidates_back(shop, 7200)
    assert shop.cleanup({"disk": [kept, lost]}, grace_s=3600)["disk"]["found"] == []
    assert verdicts(shop.cleanup({"disk": [kept]}, grace_s=3600), "disk") == {lost: "young"}


@pytest.mark.parametrize("known", [0, 1, 2])
def test_a_list_that_lacks_much_of_what_lives_is_not_believed(shop: Shop, known: int) -> None:
    """As from a `bosh vms` that failed: the list is empty or short."""
    disks = _disks(shop, 4)
    for _ in range(2):
        report = shop.cleanup({"disk": disks[:known]}, cap_percent=100 if known == 0 else 25)
        assert f"lacks {4 - known} of the 4" in report["disk"]["stopped"]
        assert (report["disk"]["found"], report["disk"]["deleted"]) == ([], [])
    wrong = shop.cleanup({"disk": disks[:known]}, left_out={"disk": 3 - known})
    assert wrong["disk"]["deleted"] == []
    right = shop.cleanup({"disk": disks[:known]}, left_out={"disk": 4 - known})
    assert sorted(right["disk"]["deleted"]) == sorted(disks[known:])


def test_a_large_share_of_a_kind_is_not_deleted(shop: Shop) -> None:
    disks = _disks(shop, 12)
    known = {"disk": disks[:6]}
    report = shop.cleanup(known, left_out={"disk": 6})
    assert "6 of 12 exceed the cap of 25 %" in report["disk"]["stopped"]
    assert report["disk"]["deleted"] == []
    assert len(shop.cleanup(known, left_out={"disk": 6}, cap_percent=50)["disk"]["deleted"]) == 6


def _disks(shop: Shop, count: int) -> list[str]:
    return [shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1) for _ in range(count)]


def _make_old(shop: Shop) -> None:
    with shop.account.datacenter.store.writing() as db:
        db.execute("UPDATE objects SET created_at = created_at - 100000")


def _move_candidates_back(shop: Shop, seconds: float) -> None:
    with shop.ledger() as ledger, ledger.write() as tx:
        tx.execute(sa.update(suspects).values(since=suspects.c.since - seconds))


def test_a_dry_run_changes_nothing_and_is_the_default(shop: Shop) -> None:
    kept, lost = _disks(shop, 2)
    report = shop.call("cleanup", DIRECTOR, {"disk": [kept]}, {"grace_s": 0})
    assert verdicts(report, "disk") == {lost: "orphan"}
    assert sorted(shop.inventory()["disk"]) == sorted([kept, lost])


def test_others_are_never_touched(shop: Shop) -> None:
    shop.stemcell()
    foreign = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1, director_uuid="another")
    shop.cleanup({"vm": [], "disk": [], "image": []}, left_out={"image": 1})
    assert shop.inventory() == {"disk": [foreign]}


def test_another_directors_objects_are_not_judged_by_our_marks(shop: Shop) -> None:
    disk = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    with pytest.raises(CpiFailure, match="in the name of Director another"):
        shop.call("cleanup", DIRECTOR, {"disk": []}, {"dry_run": False, "grace_s": 0}, director_uuid="another")
    assert shop.inventory() == {"disk": [disk]}


def test_groups_can_be_joined_again_after_a_sweep_that_failed(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.call("delete_vm", shop.create_vm("agent-1", stemcell, group="bosh-dep-web"))
    (group,) = shop.inventory()["server_group"]
    faults.add(shop.account.datacenter.store, "list_vms", "error", times=1)
    with pytest.raises(CpiFailure):
        shop.cleanup()
    cid = shop.create_vm("agent-2", stemcell, group="bosh-dep-web")
    assert get_vm(shop.account, cid).groups == (group,)
