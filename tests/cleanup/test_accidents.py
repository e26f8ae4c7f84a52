"""Accidents that need both databases, or what only the sandbox shows. All others are in `accidents`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.cpi.kit.marking import GROUP
from coterie.errors import Conflict
from coterie.ledger.tables import domains
from coterie.requests import start as work
from coterie.sandbox import faults, server_groups
from coterie.sandbox.pages import Filter
from tests.cleanup.yard import AT_ONCE, WEB, Yard
from tests.requests.site import group, manifest


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


def test_an_operators_own_group_of_a_look_alike_name(yard: Yard) -> None:
    yard.leave()
    account = yard.operator()
    (ours,) = server_groups.list_server_groups(account).items
    twin = server_groups.create_server_group(account, name=ours.name, policy="anti-affinity")
    yard.clean()
    assert [key for key in yard.everything() if key[0] == "server_group"] == [("server_group", twin.id)]


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
