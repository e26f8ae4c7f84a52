"""What goes wrong around a cleanup: whatever it is, nothing is deleted that should not be."""

from __future__ import annotations

import copy
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.cleanup.survey import NO_DIRECTOR
from coterie.cpi.contract import CpiError, SurveyPage
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.cpi.kit.marking import DIRECTOR, GROUP
from coterie.errors import Conflict, UsageError
from coterie.ledger.store import Ledger
from coterie.ledger.tables import domains
from coterie.requests import start as work
from coterie.requests.draft import draft_plan
from coterie.sandbox import disks, faults, security_groups, server_groups
from coterie.sandbox.pages import Filter
from coterie.sandbox.tags import set_tags
from tests.cleanup.yard import AT_ONCE, WEB, Yard
from tests.requests.site import group, manifest

Bend = Callable[[Any, str, str, str | None, Callable[..., SurveyPage]], SurveyPage]


def bend(monkeypatch: pytest.MonkeyPatch, how: Bend) -> None:
    """Answer `survey` otherwise: how(cpi, kind, director, cursor, survey)."""
    original = SandboxCpi.survey

    def survey(self: Any, kind: Any, director: str, cursor: str | None = None) -> SurveyPage:
        return how(self, kind, director, cursor, lambda *args: original(self, *args))

    monkeypatch.setattr(SandboxCpi, "survey", survey)


def reason(plan: Any, kind: str) -> str:
    (found,) = [one.reason for one in plan.stopped if one.kind == kind]
    return str(found)


def test_tags_unreadable(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.leave()
    before = yard.everything()

    def unreadable(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        page = survey(kind, director, cursor)
        return replace(page, objects=tuple(replace(thing, mark=None, tags=None) for thing in page.objects))

    bend(monkeypatch, unreadable)
    plan = yard.clean()
    assert plan.items == ()
    assert "could not be read" in reason(plan, "vm")
    assert yard.everything() == before


def test_tag_fetch_fails_half_way(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.leave()

    def breaks(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        if kind != "vm" or director == NO_DIRECTOR:
            return survey(kind, director, cursor)
        if cursor is not None:
            raise CpiError("the tag service answered 500")
        page = survey(kind, director, cursor)
        return replace(page, objects=page.objects[:1], next="2")

    vms = yard.held()["vm"]
    with monkeypatch.context() as bent:
        bend(bent, breaks)
        plan = yard.clean()
    assert "the tag service answered 500" in reason(plan, "vm")
    assert yard.held()["vm"] == vms, "not even the one that was readable"


def test_filter_ignored_by_the_cloud(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.leave()
    before = yard.everything()
    bend(monkeypatch, lambda cpi, kind, director, cursor, survey: survey(kind, yard.director, cursor))
    plan = yard.clean()
    assert plan.items == ()
    assert "ignores the filter" in reason(plan, "disk")
    assert yard.everything() == before


@pytest.mark.parametrize("name", ["", "a", "*", "a*", "??"])
def test_empty_or_one_letter_name_filter(name: str) -> None:
    for option in ("names", "not_names"):
        with pytest.raises(UsageError, match=option):
            Options.of_wire({option: [name]})


def test_same_name_made_again_since_the_plan(yard: Yard) -> None:
    yard.leave()
    yard.clean(kinds=["vm"])
    plan = yard.survey(kinds=["server_group"])
    (item,) = plan.items
    account = yard.operator()
    (old,) = server_groups.list_server_groups(account, Filter(tag=(GROUP, item.cid))).items
    server_groups.delete_server_group(account, old.id)
    server_groups.create_server_group(account, name=old.name, policy="anti-affinity", tags=old.tags)
    before = yard.everything()
    yard.apply(plan)
    assert yard.outcomes(plan) == {item.cid: "skipped"}
    assert yard.everything() == before


def test_object_changed_owner_since_the_plan(yard: Yard) -> None:
    yard.leave()
    yard.clean(kinds=["vm"])
    plan = yard.survey(kinds=["disk"])
    first, second = (item.cid for item in plan.items)
    set_tags(yard.operator(), first, "disk", {DIRECTOR: "0b1f2c3d-0000-4000-8000-000000000000"})
    yard.apply(plan)
    assert yard.outcomes(plan) == {first: "gone", second: "deleted"}
    assert ("disk", first) in yard.everything()


def test_resources_of_another_director(yard: Yard) -> None:
    yard.leave()
    yard.plant(50)
    foreign = yard.foreign()
    assert any(DIRECTOR in tags for _, tags in foreign.values())
    yard.clean()
    assert yard.foreign() == foreign


def test_an_operators_own_group_of_a_look_alike_name(yard: Yard) -> None:
    yard.leave()
    account = yard.operator()
    (ours,) = server_groups.list_server_groups(account).items
    twin = server_groups.create_server_group(account, name=ours.name, policy="anti-affinity")
    yard.clean()
    assert [key for key in yard.everything() if key[0] == "server_group"] == [("server_group", twin.id)]


def test_two_groups_that_answer_to_one_cid_are_both_kept(yard: Yard) -> None:
    yard.leave()
    account = yard.operator()
    (ours,) = server_groups.list_server_groups(account).items
    copied = server_groups.create_server_group(account, name="copied", policy="anti-affinity", tags=ours.tags)
    yard.clean()
    left = {identity for kind, identity in yard.everything() if kind == "server_group"}
    assert left == {ours.id, copied.id}, "the id does not show which of them is ours"


def copy_security_group(yard: Yard) -> tuple[str, str]:
    """Ours, and one that a person cloned with all its tags."""
    (ours,) = security_groups.list_security_groups(yard.operator()).items
    clone = security_groups.create_security_group(yard.operator(), name="cloned", tags=ours.tags)
    return ours.id, clone.id


def test_a_cloned_security_group_is_kept_by_a_sweep(yard: Yard) -> None:
    yard.leave()
    ours, clone = copy_security_group(yard)
    plan = yard.clean()
    (why,) = [row.reason for row in plan.rest if row.cid == clone]
    assert "was it copied?" in why
    assert [key for key in yard.everything() if key[0] == "security_group"] == [("security_group", clone)]
    (parent,) = [item for item in plan.items if item.kind == "server_group"]
    assert any(f"security_group {ours}" in line for line in parent.evidence or ())


def test_a_cloned_security_group_is_kept_by_an_ordinary_delete(yard: Yard) -> None:
    yard.site.deploy(WEB)
    ours, clone = copy_security_group(yard)
    plan = draft_plan(yard.ledger, work.PlanRequest(deployment="dep", delete=True)).plan
    assert [change.subject for change in plan.changes if f"security_group {ours}" in change.reason] == ["web@lab"]
    task = yard.site.delete()
    assert [key for key in yard.everything() if key[0] == "security_group"] == [("security_group", clone)]
    assert "object.parts" in yard.site.kinds(task)
    assert ours not in [cid for _, cid in yard.everything()]


def test_a_copy_that_carries_our_mark_is_kept(yard: Yard) -> None:
    """Clouds copy tags when a disk is cloned; the ledger shows which of the two is ours."""
    yard.leave()
    account = yard.operator()
    ours = disks.list_disks(account).items[0]
    clone = disks.create_disk(account, name="clone", size_mb=1, tags=ours.tags)
    plan = yard.clean()
    (said,) = [row.reason for row in plan.rest if row.cid == clone.id]
    assert "was it copied?" in said
    assert yard.held() == {"disk": [clone.id]}


def test_partial_page(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.leave()
    held = yard.held()["disk"]

    def partial(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        return replace(survey(kind, director, cursor), complete=kind != "disk")

    bend(monkeypatch, partial)
    plan = yard.clean()
    assert "incomplete" in reason(plan, "disk")
    assert yard.held() == {"disk": held}


def test_clock_skew(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud that lives in 1970 makes nothing old enough, one in the future nothing young."""
    yard.leave()
    shift = [0.0]

    def skewed(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        page = survey(kind, director, cursor)
        moved = (replace(thing, created_at=(thing.created_at or 0) + shift[0]) for thing in page.objects)
        return replace(page, objects=tuple(moved))

    bend(monkeypatch, skewed)
    shift[0] = -1.7e9
    assert yard.survey(grace_s=3600).items == ()
    shift[0] = +1e6
    future = yard.survey(older_than_s=3600)
    assert future.items == ()
    assert {row.reason for row in future.rest} == {"left out: made in the future, so the cloud's clock and ours differ"}


def test_ledger_restored_from_an_old_backup(yard: Yard, tmp_path: Path) -> None:
    site = yard.site
    site.deploy(WEB)
    backup = tmp_path / "backup.db"
    with sqlite3.connect(tmp_path / "ledger.db") as live, sqlite3.connect(backup) as copied:
        live.backup(copied)
    site.deploy(WEB.replace("instances: 2", "instances: 4"))
    held = yard.held()
    site.conductor.drain()
    restored = Ledger.open(f"sqlite:///{backup}")
    old = copy.copy(site)
    old.ledger = restored
    old.conductor = old.new_conductor("restored")
    old.conductor.start()
    try:
        after = Yard(old)
        plan = after.clean()
        assert plan.items == ()
        newer = [row for row in plan.rest if "restored from an old backup" in row.reason]
        assert sorted(row.kind for row in newer) == ["disk", "disk", "vm", "vm"]
        assert after.held() == held
    finally:
        old.conductor.drain()
        restored.close()


def test_two_cleanups_at_once(both: Yard) -> None:
    both.leave()
    both.fault("list_vms", "hang", times=1)
    _, task = start.survey(both.ledger, Options.of_wire(AT_ONCE), "one")
    with pytest.raises(Conflict) as second:
        start.survey(both.ledger, Options.of_wire(AT_ONCE), "two")
    assert second.value.details == {"task_id": task}
    faults.clear(both.operator().datacenter.store)
    both.site.wait(task)
    plan = both.survey()
    both.apply(plan)
    with pytest.raises(Conflict, match="applied already"):
        both.apply(plan)


def test_a_deployment_that_starts_in_the_middle_is_left_alone(both: Yard) -> None:
    both.leave()
    plan = both.survey()
    held = both.held()
    both.fault("create_vm", "hang")
    running = work.deploy(both.ledger, both.site.request(WEB), None, "test")
    both.apply(plan)
    assert {both.outcomes(plan)[cid] for kind, cids in held.items() for cid in cids} == {"skipped"}
    assert f"task {running} is at work" in both.why(plan, held["vm"][0])
    faults.clear(both.operator().datacenter.store)
    both.site.wait(running)
    assert {node.state for node in both.site.nodes().values()} == {"up"}
    assert set(held["vm"]) < set(both.held()["vm"])


def test_a_deployment_is_refused_while_its_group_is_being_swept(both: Yard) -> None:
    both.leave()
    plan = both.survey()
    both.fault("delete_vm", "hang", times=1)
    sweep = start.apply(both.ledger, plan.cleanup, plan.id, "test")
    _until(lambda: _holds(both))
    with pytest.raises(Conflict) as refused:
        work.deploy(both.ledger, both.site.request(WEB), None, "test")
    assert refused.value.retryable
    assert refused.value.details == {"task_id": sweep}
    faults.clear(both.operator().datacenter.store)
    both.site.wait(sweep)
    both.site.deploy(WEB)
    assert {node.state for node in both.site.nodes().values()} == {"up"}


def test_throttling_delays_and_drops_nothing(yard: Yard) -> None:
    yard.leave()
    yard.fault("delete_*", "throttle", times=15, ms=5)
    plan = yard.clean()
    assert yard.held() == {}
    assert "failed" not in yard.outcomes(plan).values()


def test_first_delete_fails_and_the_rest_goes_on(yard: Yard) -> None:
    yard.leave(manifest(group("web", 4)))
    vms = yard.held()["vm"]
    yard.fault("delete_vm", "error", times=1, code="failed", retryable=False)
    plan = yard.clean(expect_state="failed", kinds=["vm"])
    assert sorted(yard.outcomes(plan).values(), key=str) == ["deleted", "deleted", "deleted", "failed"]
    assert len(yard.held()["vm"]) == 1 < len(vms)
    yard.clean()
    assert yard.held() == {}


@pytest.mark.parametrize(("caps", "exceeded"), [({"cap": 5}, True), ({"cap_percent": 50}, True), ({}, False)])
def test_cap_exceeded(yard: Yard, caps: dict[str, Any], exceeded: bool) -> None:
    yard.leave(manifest(group("web", 6)))
    vms = yard.held()["vm"]
    plan = yard.clean(**caps)
    assert any("more than the cap" in row.reason for row in plan.rest) is exceeded
    assert (yard.held().get("vm", []) == vms) is exceeded


def _holds(yard: Yard) -> bool:
    held = sa.select(domains.c.domain).where(domains.c.domain.like("hold:%"), domains.c.holder.is_not(None))
    with yard.ledger.read() as tx:
        return tx.execute(held).first() is not None


def _until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)
