"""Grace, undo, snapshots, stemcells, tags, reclaim: what becomes of things over several cleanups."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cleanup import start
from coterie.errors import NotFound, Refused, StalePlan
from coterie.ledger import writes
from coterie.ledger.rows import objects
from coterie.ledger.store import time
from coterie.ledger.tables import addresses, cleanups, suspects, tasks
from coterie.ledger.tables import nodes as nodes_table
from coterie.ledger.tables import objects as objects_table
from coterie.requests.operations import abandon
from coterie.sandbox import faults
from coterie.sandbox.tags import set_tags
from tests.cleanup.yard import Yard
from tests.requests.site import group, manifest
from tests.requests.test_health import add_cloud

DAY = 86_400.0


def age(yard: Yard, seconds: float) -> None:
    """As if the marks had been set so much earlier."""
    with yard.ledger.write() as tx:
        tx.execute(suspects.update().values(since=suspects.c.since - seconds))


def rest(plan: Any, kind: str) -> list[str]:
    return [row.reason for row in plan.rest if row.kind == kind]


def test_an_orphan_is_marked_first_and_goes_after_the_grace_period(yard: Yard) -> None:
    yard.leave()
    first = yard.survey(grace_s=DAY)
    assert first.items == ()
    assert all("it may go after" in reason for reason in rest(first, "vm"))
    age(yard, DAY / 2)
    assert yard.survey(grace_s=DAY).items == ()
    age(yard, DAY / 2)
    assert {item.kind for item in yard.clean(grace_s=DAY).items} >= {"vm", "disk", "server_group"}
    assert yard.held() == {}


def test_a_mark_counts_only_while_it_is_never_broken(yard: Yard) -> None:
    yard.leave(manifest(group("web", 1)))
    yard.survey(grace_s=DAY)
    age(yard, DAY)
    (vm,) = yard.held()["vm"]
    set_tags(yard.operator(), vm, "vm", {"coterie-keep": "yes"})
    yard.survey(grace_s=DAY)
    set_tags(yard.operator(), vm, "vm", {"coterie-keep": None})
    again = yard.survey(grace_s=DAY)
    assert "vm" not in {item.kind for item in again.items}, "its time has begun anew"


def test_a_disk_is_kept_for_the_undo_window_and_then_goes(yard: Yard) -> None:
    yard.leave()
    plan = yard.clean(undo_s=7 * DAY)
    assert [item.action for item in plan.items if item.kind == "disk"] == ["retire", "retire"]
    kept = yard.held()["disk"]
    assert {yard.row(cid).state for cid in kept} == {"kept"}
    assert rest(yard.clean(undo_s=7 * DAY), "disk") and yard.held()["disk"] == kept
    age(yard, 7 * DAY)
    yard.clean(undo_s=7 * DAY)
    assert "disk" not in yard.held()
    assert {row.state for row in _rows(yard, "disk")} == {"gone"}


def test_undo_saves_a_disk_for_good(yard: Yard) -> None:
    yard.leave()
    yard.clean(undo_s=7 * DAY)
    first, second = yard.held()["disk"]
    assert [one["cid"] for one in start.undo(yard.ledger, [first])] == [first]
    age(yard, 8 * DAY)
    yard.clean(undo_s=7 * DAY)
    assert yard.held()["disk"] == [first]
    yard.clean()
    assert yard.held()["disk"] == [first], "not even without a window"
    with pytest.raises(NotFound):
        start.undo(yard.ledger, [second])


def test_a_plan_from_before_an_undo_is_stale(yard: Yard) -> None:
    yard.leave()
    yard.clean(undo_s=7 * DAY)
    age(yard, 8 * DAY)
    plan = yard.survey(undo_s=7 * DAY)
    start.undo(yard.ledger, [])
    with pytest.raises(StalePlan):
        yard.apply(plan)


def test_a_disk_is_snapshotted_first_where_that_is_wished_for(yard: Yard) -> None:
    yard.leave()
    before = yard.held()["disk"]
    yard.clean(disks="snapshot", undo_s=7 * DAY)
    assert "disk" not in yard.held()
    assert len(yard.held()["snapshot"]) == len(before)
    age(yard, 8 * DAY)
    yard.clean(undo_s=7 * DAY)
    assert len(yard.held()["snapshot"]) == len(before), "its own window has just begun"
    age(yard, 8 * DAY)
    yard.clean(undo_s=7 * DAY)
    assert yard.held() == {}


def test_the_newest_unused_stemcells_stay(yard: Yard) -> None:
    yard.leave(manifest(group("a", 1), group("b", 1, stemcell="two")))
    plan = yard.clean(keep_stemcells=1)
    assert rest(plan, "image") == ["one of the 1 newest unused of os"]
    (left,) = yard.held()["image"]
    assert yard.row(left).ref == "os/2"


@pytest.mark.parametrize(
    "tags",
    [{"coterie-keep": "yes"}, {"coterie-keep-until": "2999-12-31"}, {"Coterie-Keep-Until": "soon"}],
)
def test_tags_that_say_no_are_heard_even_after_the_plan(yard: Yard, tags: dict[str, str]) -> None:
    yard.leave(manifest(group("web", 2)))
    plan = yard.survey(kinds=["vm"])
    first, second = (item.cid for item in plan.items)
    set_tags(yard.operator(), first, "vm", tags)
    yard.apply(plan)
    assert yard.held()["vm"] == [first]
    assert yard.outcomes(plan) == {first: "skipped", second: "deleted"}
    assert yard.survey(kinds=["vm"]).items == ()


def test_a_keep_until_that_has_passed_keeps_nothing(yard: Yard) -> None:
    yard.leave(manifest(group("web", 1)))
    set_tags(yard.operator(), yard.held()["vm"][0], "vm", {"coterie-keep-until": "2020-01-01"})
    yard.clean()
    assert yard.held() == {}


def test_filters_leave_out_and_say_so(yard: Yard) -> None:
    yard.leave(manifest(group("web", 1), group("job", 1)))
    plan = yard.clean(kinds=["vm"], names=["web/*"], azs=["z1"])
    assert [item.name for item in plan.items] == ["web/0"]
    assert rest(plan, "vm") == ["left out: its name is 'job/0'"]
    assert len(yard.held()["vm"]) == 1


def test_a_vm_that_came_after_its_create_timed_out_is_reclaimed(both: Yard) -> None:
    """Its node still needs one; so the node comes up with it, and no second VM is made."""
    text = manifest(group("web", 1))
    both.site.deploy(text)
    node = both.site.nodes()["web/0"]
    _forget_answer(both, node.uuid)
    plan = both.survey()
    assert [(item.action, item.cid) for item in plan.items] == [("reclaim", node.vm_cid)]
    both.apply(plan)
    _wait_for_reclaim(both)
    now = both.site.nodes()["web/0"]
    assert (now.state, now.vm_cid) == ("up", node.vm_cid)
    assert both.held()["vm"] == [node.vm_cid]
    assert both.site.plan(text).changes == ()


def test_a_vm_that_comes_after_its_intent_was_given_up_is_an_orphan(yard: Yard) -> None:
    yard.site.deploy(manifest(group("web", 1)))
    cid = yard.held()["vm"][0]
    intent = yard.row(cid).intent
    abandon(yard.ledger, "dep")
    with yard.ledger.write() as tx:
        writes.execute(tx, objects.record_gone(intent, tombstone=True))
        tx.execute(objects_table.update().where(objects_table.c.intent == intent).values(cid=None))
    plan = yard.clean()
    assert {item.reason for item in plan.items if item.cid == cid} == {
        "it appeared after its creation had been given up"
    }
    assert yard.held() == {}


def test_an_intent_whose_object_never_came_is_closed_as_a_tombstone(yard: Yard) -> None:
    yard.site.deploy(manifest(group("web", 1)))
    yard.fault("create_vm", "timeout-before-commit")
    with yard.ledger.write() as tx:
        writes.execute(tx, objects.intend("a" * 26, "vm", "lab", deployment="none"))
    faults.clear(yard.operator().datacenter.store)
    plan = yard.clean()
    assert [(item.action, item.intent) for item in plan.items] == [("close", "a" * 26)]
    (row,) = [row for row in _rows(yard, "vm") if row.intent == "a" * 26]
    assert (row.state, row.tombstone) == ("gone", True)


def test_outside_the_allowed_hours_nothing_goes(yard: Yard) -> None:
    yard.leave()
    with yard.ledger.read() as tx:
        hour = int(time(tx) // 3600) % 24
    held = yard.held()
    plan = yard.clean(hours=f"{(hour + 2) % 24}-{(hour + 3) % 24}")
    assert set(yard.outcomes(plan).values()) == {"skipped"}
    assert yard.held() == held


def test_addresses_of_a_leftover_vm_are_not_given_out_until_it_is_gone(yard: Yard) -> None:
    yard.leave(manifest(group("web", 2)))
    yard.site.deploy(manifest(group("web", 2)))
    yard.clean()
    with yard.ledger.read() as tx:
        owners = set(tx.execute(sa.select(addresses.c.node)).scalars())
        assert owners == set(tx.execute(sa.select(nodes_table.c.uuid)).scalars())


def _rows(yard: Yard, kind: str) -> list[Any]:
    with yard.ledger.read() as tx:
        return list(tx.execute(sa.select(objects_table).where(objects_table.c.kind == kind)))


def _forget_answer(yard: Yard, node: str) -> None:
    """The ledger as it is when the answer to create_vm was lost, and the step was given up."""
    with yard.ledger.write() as tx:
        row = tx.execute(sa.select(nodes_table.c.vm_intent).where(nodes_table.c.uuid == node)).scalar_one()
        mine = objects_table.c.intent == row
        tx.execute(objects_table.update().where(mine).values(state="unknown", cid=None, doubt_since=time(tx)))
        failing = {"state": "failing", "vm_cid": None, "spec": None, "problem": {"what": "timed out"}}
        tx.execute(nodes_table.update().where(nodes_table.c.uuid == node).values(**failing))


def _wait_for_reclaim(yard: Yard) -> None:
    with yard.ledger.read() as tx:
        for task in tx.execute(sa.select(tasks.c.id).where(tasks.c.kind == "reclaim")).scalars():
            yard.site.wait(task)


def test_a_cloud_without_a_conductor_is_left_out_and_told(yard: Yard) -> None:
    """A site that is gone keeps no other one from being cleaned up."""
    yard.leave()
    add_cloud(yard.site, "far")
    plan = yard.clean()
    assert {(one.cloud, one.reason) for one in plan.stopped} == {("far", "no conductor is alive for it")}
    assert yard.held() == {}


def test_where_no_conductor_is_alive_a_survey_is_refused_with_the_remedy(yard: Yard) -> None:
    yard.leave()
    yard.site.conductor.drain(5.0)
    with pytest.raises(Refused, match="no conductor is alive") as refused:
        yard.survey()
    assert refused.value.remedy and "start one: coterie conductor" in refused.value.remedy
    with yard.ledger.read() as tx:
        assert tx.execute(sa.select(cleanups.c.id)).all() == [], "nothing is begun"
