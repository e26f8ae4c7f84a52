"""Machines of one `env.bosh.group` on CloudStack: one affinity group for all processes, none when all is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.cpi.conformance.expect import wait_for
from tests.bosh.cloud_program import CloudShop
from tests.bosh.program import PATIENCE_S, result
from tests.bosh.starting import Start, by_fork, by_the_program

GROUP = "bosh-dep-web"
NOTHING_IN_USE: dict[str, Any] = {"vm": [], "disk": [], "snapshot": []}


def made_together(shop: CloudShop, start: Start, count: int) -> list[str]:
    """All of them at once, in one group that the cloud's own list shows."""
    requests = [shop.vm_request(f"agent-{n}", shop.template, group=GROUP) for n in range(count)]
    made = [result(raw)[0] for raw in start(shop, requests)]
    assert len(set(made)) == count
    (group,) = shop.bed.client().listAffinityGroups()["affinitygroup"]
    assert set(group["virtualmachineIds"]) == set(made)
    return made


def removed(shop: CloudShop, cids: list[str]) -> None:
    for cid in cids:
        shop.call("delete_vm", cid)


def without_the_right(shop: CloudShop, start: Start, count: int) -> None:
    removed(shop, made_together(shop, start, count))
    report = shop.cleanup(NOTHING_IN_USE)
    assert report["server_group"]["deleted"] == []
    assert len(shop.inventory()["server_group"]) == 1
    shop.bed.set("expunge.delay", "0")
    shop.bed.set("expunge.interval", "0")
    assert wait_for(lambda: (shop.cleanup(NOTHING_IN_USE) and not shop.inventory()) or None, PATIENCE_S)


def with_the_right(shop: CloudShop, start: Start, count: int) -> None:
    removed(shop, made_together(shop, start, count))
    shop.cleanup(NOTHING_IN_USE)
    assert shop.inventory() == {}


def test_fifty_processes_make_one_affinity_group_and_cleanup_none(cloud_shop: CloudShop) -> None:
    with_the_right(cloud_shop, by_fork, 50)


def test_without_the_right_to_expunge_the_group_goes_after_the_delay(user_shop: CloudShop) -> None:
    without_the_right(user_shop, by_fork, 6)


@pytest.mark.full
def test_fifty_without_the_right_to_expunge(user_shop: CloudShop) -> None:
    without_the_right(user_shop, by_fork, 50)


@pytest.mark.full
@pytest.mark.parametrize("ending", [with_the_right, without_the_right])
def test_fifty_with_the_core(ending: Callable[[CloudShop, Start, int], None], request: pytest.FixtureRequest) -> None:
    shop = request.getfixturevalue("cloud_shop" if ending is with_the_right else "user_shop")
    with shop.core():
        ending(shop, by_the_program, 50)


def test_a_compilation_machine_gets_no_affinity_group(cloud_shop: CloudShop) -> None:
    job = "compilation-0b5b4a9e-1111-2222-3333-444444444444"
    cid = cloud_shop.create_vm("agent-1", cloud_shop.template, group=f"bosh-dep-{job}", job=job)
    assert cloud_shop.inventory() == {"vm": [cid]}


def test_groups_that_compilation_machines_left_behind_go(cloud_shop: CloudShop) -> None:
    cloud_shop.configure(groups={"compilation": True})
    job = "compilation-0b5b4a9e-1111-2222-3333-444444444444"
    cid = cloud_shop.create_vm("agent-1", cloud_shop.template, group=f"bosh-dep-{job}", job=job)
    cloud_shop.call("delete_vm", cid)
    assert len(cloud_shop.inventory()["server_group"]) == 1
    (found,) = cloud_shop.cleanup()["server_group"]["found"]
    assert found["reason"] == "a compilation machine left this group behind, and nothing is in it"
    assert cloud_shop.inventory() == {}


def test_a_dry_run_explains_and_changes_nothing(cloud_shop: CloudShop) -> None:
    cid = cloud_shop.create_vm("agent-1", cloud_shop.template, group=GROUP)
    cloud_shop.call("delete_vm", cid)
    before = cloud_shop.inventory()
    (found,) = cloud_shop.cleanup(dry_run=True)["server_group"]["found"]
    assert (found["verdict"], found["reason"]) == ("orphan", f"no machine of {GROUP} is left")
    assert cloud_shop.inventory() == before
