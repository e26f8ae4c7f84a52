"""Quotas: charged in the call, refused with the numbers; the last setting counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.sandbox import disks, images, security_groups, server_groups, snapshots
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import BadRequest, OverQuota, Unauthenticated
from coterie.sandbox.quotas import get_quotas, set_quota

from .world import World, begin

MAKERS = {
    "images": lambda world: images.create_image(world.account, name="i"),
    "volumes": lambda world: disks.create_disk(world.account, name="d", size_mb=1),
    "volume_gb": lambda world: disks.create_disk(world.account, name="d", size_mb=1),
    "security_groups": lambda world: security_groups.create_security_group(world.account, name="s"),
    "server_groups": lambda world: server_groups.create_server_group(world.account, name="g"),
    "instances": lambda world: world.boot(),
    "cpu": lambda world: world.boot(),
}


@pytest.mark.parametrize("resource", MAKERS)
def test_one_more_than_allowed_is_refused_and_leaves_nothing(world: World, resource: str) -> None:
    used = get_quotas(world.account)[resource].used
    set_quota(world.datacenter, "lab", resource, used + 1)
    MAKERS[resource](world)
    before = get_quotas(world.account)
    with pytest.raises(OverQuota) as caught:
        MAKERS[resource](world)
    assert caught.value.details == {"resource": resource, "used": used + 1, "limit": used + 1, "asked": 1}
    assert get_quotas(world.account) == before


def test_ram_and_snapshots_too(world: World) -> None:
    set_quota(world.datacenter, "lab", "ram_mb", 1023)
    with pytest.raises(OverQuota, match="ram_mb"):
        world.boot()
    set_quota(world.datacenter, "lab", "snapshots", 0)
    disk = disks.create_disk(world.account, name="d", size_mb=1)
    with pytest.raises(OverQuota, match="snapshots"):
        snapshots.create_snapshot(world.account, disk.id, name="s")


def test_what_is_over_a_lowered_limit_can_still_be_deleted(world: World) -> None:
    disk = disks.create_disk(world.account, name="d", size_mb=1)
    set_quota(world.datacenter, "lab", "volumes", 0)
    disks.delete_disk(world.account, disk.id)


def test_an_operators_setting_stays_until_the_owner_sets_a_new_one(tmp_path: Path) -> None:
    world = begin(tmp_path, quotas={"instances": 5})
    set_quota(world.datacenter, "lab", "instances", 7)
    open_account(world.datacenter, "lab", quotas={"instances": 5})
    assert get_quotas(world.account)["instances"].ceiling == 7
    open_account(world.datacenter, "lab", quotas={"instances": 6})
    assert get_quotas(world.account)["instances"].ceiling == 6
    open_account(world.datacenter, "lab", operator=True)
    assert get_quotas(world.account)["instances"].ceiling == 6


@pytest.mark.parametrize("wrong", [{"dragons": 1}, {"cpu": -1}, {"cpu": "lots"}])
def test_a_quota_that_makes_no_sense_is_refused(world: World, wrong: dict[str, int]) -> None:
    with pytest.raises(BadRequest):
        open_account(world.datacenter, "other", quotas=wrong)


def test_an_account_that_was_not_opened_may_do_nothing(world: World) -> None:
    stranger = Account(world.datacenter, "stranger")
    for call in (get_quotas, lambda door: images.create_image(door, name="i")):
        with pytest.raises(Unauthenticated):
            call(stranger)
    with pytest.raises(BadRequest):
        set_quota(world.datacenter, "stranger", "cpu", 1)
