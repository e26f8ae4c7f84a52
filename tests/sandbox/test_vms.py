"""VMs of the datacenter: one step or none, counters that always agree with the rows, client tokens."""

from __future__ import annotations

import pytest

from coterie.sandbox import disks, vms
from coterie.sandbox.errors import BadRequest, NoHost, NoSuch, Unavailable
from coterie.sandbox.fit import Demand
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.nics import NicRequest
from coterie.sandbox.quotas import get_quotas
from coterie.sandbox.reshape import kill_vm, set_host
from coterie.sandbox.server_groups import create_server_group, get_server_group
from coterie.sandbox.vm_shape import get_user_data, get_vm, list_vms

from .world import World

NIC = NicRequest("default", "default", "10.0.0.7", "default")


def test_a_vm_runs_on_a_host_and_takes_its_share(world: World) -> None:
    vm = world.boot(size=Demand(2, 2048, 500, "z1"), nics=[NIC])
    assert (vm.state, vm.zone, vm.host) == ("running", "z1", "z1-r1-h1")
    assert [nic.ip for nic in vm.nics] == ["10.0.0.7"]
    (host, *others) = list_hosts(world.account)
    assert (host.free_cpu, host.free_ram_mb, host.free_disk_mb, host.vms) == (6, 6144, 99_500, 1)
    assert all(other.vms == 0 for other in others)
    quotas = get_quotas(world.account)
    assert (quotas["instances"].used, quotas["cpu"].used, quotas["ram_mb"].used) == (1, 2, 2048)


def test_deleting_it_gives_everything_back_but_keeps_its_disks(world: World) -> None:
    before = list_hosts(world.account), get_quotas(world.account)
    group = create_server_group(world.account, name="g")
    vm = world.boot(group=group.id, nics=[NIC])
    disk = disks.create_disk(world.account, name="d", size_mb=10)
    disks.attach_disk(world.account, disk.id, vm.id)
    vms.delete_vm(world.account, vm.id)
    assert list_hosts(world.account) == before[0]
    after = get_quotas(world.account)
    assert {name: quota.used for name, quota in after.items() if quota.used} == {
        "images": 1,
        "server_groups": 1,
        "volumes": 1,
        "volume_gb": 1,
    }
    left = disks.get_disk(world.account, disk.id)
    assert (left.vm, left.device) == (None, None)
    assert left.revision == disk.revision + 2
    assert get_server_group(world.account, group.id).members == 0
    assert world.boot(nics=[NIC]).nics[0].ip == "10.0.0.7"
    with pytest.raises(NoSuch):
        get_vm(world.account, vm.id)


def test_a_vm_that_fits_nowhere_leaves_nothing(world: World) -> None:
    group = create_server_group(world.account, name="g")
    before = list_hosts(world.account), get_quotas(world.account)
    with pytest.raises(NoHost):
        world.boot(size=Demand(99, 1024, 0, "z1"), group=group.id, nics=[NIC])
    assert (list_hosts(world.account), get_quotas(world.account)) == before
    assert list_vms(world.account).items == ()
    assert get_server_group(world.account, group.id).revision == group.revision
    assert world.boot(nics=[NIC]).state == "running"


def test_one_client_token_makes_one_vm(world: World) -> None:
    first = world.boot("a", client_token="t")
    assert world.boot("b", client_token="t") == first
    assert len(list_vms(world.account).items) == 1
    vms.delete_vm(world.account, first.id)
    assert world.boot("c", client_token="t").id != first.id


def test_names_are_not_unique(world: World) -> None:
    assert world.boot("same").id != world.boot("same").id


def test_a_vm_can_wait_for_its_host_until_it_is_started(world: World) -> None:
    vm = world.boot(start=False)
    assert (vm.state, vm.host) == ("stopped", None)
    assert all(host.vms == 0 for host in list_hosts(world.account))
    started = vms.start_vm(world.account, vm.id)
    assert (started.state, started.host) == ("running", "z1-r1-h1")
    assert started.revision > vm.revision
    assert vms.start_vm(world.account, vm.id) == started


def test_a_reboot_cures_a_killed_vm_unless_its_host_is_down(world: World) -> None:
    vm = world.boot()
    kill_vm(world.datacenter, vm.id, "error")
    assert get_vm(world.account, vm.id).state == "error"
    vms.reboot_vm(world.account, vm.id)
    assert get_vm(world.account, vm.id).state == "running"
    set_host(world.datacenter, str(vm.host), up=False)
    with pytest.raises(Unavailable):
        vms.reboot_vm(world.account, vm.id)


def test_every_change_raises_the_revision(world: World) -> None:
    vm = world.boot()
    disk = disks.create_disk(world.account, name="d", size_mb=10)
    disks.attach_disk(world.account, disk.id, vm.id)
    attached = get_vm(world.account, vm.id)
    assert attached.revision > vm.revision
    vms.reboot_vm(world.account, vm.id)
    assert get_vm(world.account, vm.id).revision > attached.revision


def test_user_data_is_kept_and_not_shown_in_lists(world: World) -> None:
    vm = world.boot(user_data="secret")
    assert get_user_data(world.account, vm.id) == "secret"
    assert "secret" not in repr(list_vms(world.account).items)


def test_what_it_is_made_of_must_exist(world: World) -> None:
    world.image, image = "img-none", world.image
    with pytest.raises(NoSuch) as caught:
        world.boot()
    assert caught.value.kind == "image"
    world.image = image
    for more, kind in (({"group": "grp-none"}, "server_group"), ({"near_disks": ["none"]}, "disk")):
        with pytest.raises(NoSuch) as caught:
            world.boot(**more)
        assert caught.value.kind == kind


def test_an_unknown_zone_is_refused_with_the_known_ones(world: World) -> None:
    with pytest.raises(BadRequest, match="z9") as caught:
        world.boot(size=Demand(1, 1, 1, "z9"))
    assert "z1" in caught.value.remedy


def test_another_account_sees_nothing_of_it(world: World) -> None:
    from coterie.sandbox.accounts import open_account

    vm = world.boot()
    other = open_account(world.datacenter, "other")
    assert list_vms(other).items == ()
    with pytest.raises(NoSuch):
        vms.delete_vm(other, vm.id)
