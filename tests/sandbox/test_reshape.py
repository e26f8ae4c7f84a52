"""The owner of the building: hosts come, go and fail; and the picture of it all."""

from __future__ import annotations

import pytest

from coterie.sandbox import server_groups
from coterie.sandbox.errors import BadRequest, InUse, NoHost, NoSuch
from coterie.sandbox.fit import Demand
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.layout import Host
from coterie.sandbox.reshape import (
    add_host,
    delete_group,
    delete_vm,
    kill_vm,
    remove_host,
    set_group_policy,
    set_host,
    set_host_group,
)
from coterie.sandbox.view import picture
from coterie.sandbox.vm_shape import get_vm, list_vms

from .world import World


def test_a_host_that_fails_takes_its_vms_to_error_and_gets_no_new_ones(world: World) -> None:
    vm = world.boot()
    assert set_host(world.datacenter, str(vm.host), up=False) == [vm.id]
    broken = get_vm(world.account, vm.id)
    assert broken.state == "error"
    assert broken.revision > vm.revision
    assert world.boot().host != vm.host
    assert set_host(world.datacenter, str(vm.host), up=True) == []
    assert get_vm(world.account, vm.id).state == "error"


def test_when_all_are_down_the_refusal_says_so(world: World) -> None:
    for host in list_hosts(world.account):
        set_host(world.datacenter, host.name, up=False)
    with pytest.raises(NoHost, match="z1: 4 hosts: 4 are down"):
        world.boot()


def test_hosts_come_and_go(world: World) -> None:
    add_host(world.datacenter, Host("big", "z2", "z2-r1", 64, 10**6, 10**6))
    with pytest.raises(BadRequest):
        add_host(world.datacenter, Host("big", "z2", "z2-r1", 64, 10**6, 10**6))
    vm = world.boot(size=Demand(64, 1, 1, "z2"))
    with pytest.raises(InUse):
        remove_host(world.datacenter, "big")
    delete_vm(world.datacenter, vm.id)
    remove_host(world.datacenter, "big")
    assert "big" not in [host.name for host in list_hosts(world.account)]


def test_vms_die_and_vanish_behind_their_owners_back(world: World) -> None:
    vm = world.boot()
    kill_vm(world.datacenter, vm.id)
    assert get_vm(world.account, vm.id).state == "stopped"
    with pytest.raises(BadRequest):
        kill_vm(world.datacenter, vm.id, "running")
    delete_vm(world.datacenter, vm.id)
    assert list_vms(world.account).items == ()


def test_what_is_not_there_cannot_be_reshaped(world: World) -> None:
    for act in (
        lambda: remove_host(world.datacenter, "none"),
        lambda: set_host(world.datacenter, "none", up=True),
        lambda: set_host_group(world.datacenter, "g", ["none"]),
        lambda: kill_vm(world.datacenter, "none"),
        lambda: delete_vm(world.datacenter, "none"),
        lambda: delete_group(world.datacenter, "none"),
        lambda: set_group_policy(world.datacenter, "none", "affinity"),
    ):
        with pytest.raises(NoSuch):
            act()


def test_the_picture_shows_who_is_where(world: World) -> None:
    group = server_groups.create_server_group(world.account, name="g", policy="anti-affinity")
    first, second = world.boot("a", group=group.id), world.boot("b", group=group.id)
    waiting = world.boot("c", start=False)
    shown = picture(world.store)
    hosts = {host["name"]: host for zone in shown["zones"] for rack in zone["racks"] for host in rack["hosts"]}
    assert [vm["id"] for vm in hosts[first.host]["vms"]] == [first.id]
    assert hosts[second.host]["free_cpu"] == 7
    assert [vm["id"] for vm in shown["unplaced"]] == [waiting.id]
    (seen,) = shown["groups"]
    assert (seen["name"], seen["policy"], seen["size"]) == ("g", "anti-affinity", 2)
    assert [(member["name"], member["host"]) for member in seen["members"]] == [("a", first.host), ("b", second.host)]
    (account,) = shown["accounts"]
    assert account["quotas"]["instances"] == {"used": 3, "limit": None}
    assert account["objects"]["image"] == 1
