"""Disks and snapshots of the datacenter."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.sandbox import disks, snapshots
from coterie.sandbox.errors import BadRequest, InUse, OverQuota
from coterie.sandbox.fit import Demand
from coterie.sandbox.quotas import get_quotas, set_quota

from .world import World, begin


def test_attaching_again_answers_the_same_device(world: World) -> None:
    vm = world.boot()
    first, second = (disks.create_disk(world.account, name="d", size_mb=10) for _ in range(2))
    device = disks.attach_disk(world.account, first.id, vm.id)
    assert disks.attach_disk(world.account, first.id, vm.id) == device
    assert disks.attach_disk(world.account, second.id, vm.id) != device


def test_a_disk_is_attached_to_one_vm(world: World) -> None:
    disk = disks.create_disk(world.account, name="d", size_mb=10)
    vm, other = world.boot(), world.boot()
    disks.attach_disk(world.account, disk.id, vm.id)
    for refused in (
        lambda: disks.attach_disk(world.account, disk.id, other.id),
        lambda: disks.delete_disk(world.account, disk.id),
        lambda: disks.change_disk(world.account, disk.id, size_mb=20),
    ):
        with pytest.raises(InUse):
            refused()
    assert disks.detach_disk(world.account, disk.id, other.id) is False
    assert disks.detach_disk(world.account, disk.id, vm.id) is True
    disks.attach_disk(world.account, disk.id, other.id)


def test_a_disk_belongs_to_its_zone(tmp_path: Path) -> None:
    world = begin(tmp_path, {"zones": [{"name": "z1"}, {"name": "z2"}]})
    vm = world.boot()
    near = disks.create_disk(world.account, name="d", size_mb=10, near_vm=vm.id)
    assert near.zone == "z1"
    far = world.boot(size=Demand(1, 1, 1, "z2"))
    with pytest.raises(BadRequest, match="zone z1"):
        disks.attach_disk(world.account, near.id, far.id)
    with pytest.raises(BadRequest, match="zone z1"):
        world.boot(size=Demand(1, 1, 1, "z2"), near_disks=[near.id])


def test_sizes_are_charged_by_the_gigabyte(world: World) -> None:
    set_quota(world.datacenter, "lab", "volume_gb", 3)
    disk = disks.create_disk(world.account, name="d", size_mb=1025)
    assert get_quotas(world.account)["volume_gb"].used == 2
    disks.change_disk(world.account, disk.id, size_mb=3000)
    assert get_quotas(world.account)["volume_gb"].used == 3
    with pytest.raises(OverQuota):
        disks.change_disk(world.account, disk.id, size_mb=4000)
    with pytest.raises(BadRequest):
        disks.change_disk(world.account, disk.id, size_mb=1)
    disks.delete_disk(world.account, disk.id)
    assert get_quotas(world.account)["volume_gb"].used == 0


def test_a_snapshot_outlives_its_disk(world: World) -> None:
    disk = disks.create_disk(world.account, name="d", size_mb=10)
    snapshot = snapshots.create_snapshot(world.account, disk.id, name="s", client_token="t")
    assert snapshots.create_snapshot(world.account, disk.id, name="s", client_token="t") == snapshot
    disks.delete_disk(world.account, disk.id)
    assert snapshots.get_snapshot(world.account, snapshot.id).disk == disk.id
    snapshots.delete_snapshot(world.account, snapshot.id)
    assert snapshots.list_snapshots(world.account).items == ()
