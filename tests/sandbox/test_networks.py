"""Networks and addresses: unique within a network, free again afterwards, picked where none is asked."""

from __future__ import annotations

import pytest

from coterie.sandbox import networks, vms
from coterie.sandbox.errors import AddressTaken, BadRequest, InUse, NoSuch
from coterie.sandbox.nics import NicRequest

from .world import World


def nic_request(network: str = "default", ip: str | None = None, label: str = "a", card: str = "a") -> NicRequest:
    return NicRequest(label, network, ip, card)


def test_an_address_has_one_holder_and_the_refusal_names_it(world: World) -> None:
    first = world.boot(nics=[nic_request(ip="10.0.0.5")])
    with pytest.raises(AddressTaken) as caught:
        world.boot(nics=[nic_request(ip="10.0.0.5")])
    assert first.id in caught.value.why
    vms.delete_vm(world.account, first.id)
    world.boot(nics=[nic_request(ip="10.0.0.5")])


def test_the_same_address_on_another_network_is_another_address(world: World) -> None:
    other = networks.create_network(world.account, name="other", range="10.0.0.0/24")
    world.boot(nics=[nic_request(ip="10.0.0.5")])
    world.boot(nics=[nic_request(other.id, "10.0.0.5")])


def test_dynamic_addresses_differ_and_skip_those_taken(world: World) -> None:
    net = networks.create_network(world.account, name="small", range="10.9.0.0/29")
    world.boot(nics=[nic_request(net.id, "10.9.0.2")])
    picked = [world.boot(nics=[nic_request(net.id)]).nics[0].ip for _ in range(4)]
    assert picked == ["10.9.0.3", "10.9.0.4", "10.9.0.5", "10.9.0.6"]
    with pytest.raises(AddressTaken):
        world.boot(nics=[nic_request(net.id)])


def test_an_address_must_be_one_and_lie_in_the_range_and_not_be_the_gateway(world: World) -> None:
    net = networks.create_network(world.account, name="n", range="10.9.0.0/24")
    for bad in ("ten", "10.8.0.1", "10.9.0.1"):
        with pytest.raises(BadRequest):
            world.boot(nics=[nic_request(net.id, bad)])


def test_ipv6_is_spoken(world: World) -> None:
    net = networks.create_network(world.account, name="n", range="fd00::/64")
    assert world.boot(nics=[nic_request(net.id, "fd00:0::7")]).nics[0].ip == "fd00::7"
    assert world.boot(nics=[nic_request(net.id)]).nics[0].ip == "fd00::2"


def test_one_card_may_have_two_addresses_and_a_vip_has_none(world: World) -> None:
    nic_requests = [
        NicRequest("four", "default", "10.0.0.5", "card"),
        NicRequest("six", "default", "fd00::5", "card"),
        NicRequest("other", "default", "10.0.0.6", "other"),
        NicRequest("vip", "default", "10.0.0.7", ""),
    ]
    macs = {nic.label: nic.mac for nic in world.boot(nics=nic_requests).nics}
    assert macs["four"] == macs["six"] != macs["other"]
    assert macs["vip"] is None


def test_an_unknown_network_is_refused_with_the_known_ones(world: World) -> None:
    with pytest.raises(NoSuch) as caught:
        world.boot(nics=[nic_request("nowhere")])
    assert caught.value.kind == "network"
    assert "'default'" in caught.value.remedy


def test_two_networks_of_one_name_must_be_named_by_id(world: World) -> None:
    first = networks.create_network(world.account, name="twin")
    networks.create_network(world.account, name="twin")
    with pytest.raises(BadRequest, match="2 networks are named 'twin'"):
        world.boot(nics=[nic_request("twin")])
    world.boot(nics=[nic_request(first.id)])


def test_free_ranges_do_not_overlap(world: World) -> None:
    made = [networks.create_network(world.account, name="n", bits=24).range for _ in range(3)]
    assert len(set(made)) == 3
    with pytest.raises(BadRequest):
        networks.create_network(world.account, name="n", bits=31)
    with pytest.raises(BadRequest):
        networks.create_network(world.account, name="n", range="10.0.0.1/24")


def test_a_network_in_use_stays(world: World) -> None:
    net = networks.create_network(world.account, name="n")
    vm = world.boot(nics=[nic_request(net.id)])
    assert networks.get_network(world.account, net.id).vms == (vm.id,)
    with pytest.raises(InUse):
        networks.delete_network(world.account, net.id)
    vms.delete_vm(world.account, vm.id)
    networks.delete_network(world.account, net.id)
