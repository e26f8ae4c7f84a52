"""apache-libcloud's CloudStack driver, unchanged, against the served cloud."""

from __future__ import annotations

from typing import Any

import pytest
from libcloud.common.types import ProviderError
from libcloud.compute.providers import get_driver
from libcloud.compute.types import Provider

from tests.sandbox.fronts.cloudstack.rig import Rig


def driver(rig: Rig) -> Any:
    keys = rig.keys["admin"]
    host, _, port = rig.server.origin.removeprefix("http://").partition(":")
    made = get_driver(Provider.CLOUDSTACK)(
        key=keys.api_key, secret=keys.secret_key, host=host, port=int(port), path="/client/api", secure=False
    )
    made.connection.poll_interval = 0.05
    made.connection.async_poll_frequency = 0.05
    return made


def test_it_sees_the_cloud(rig: Rig) -> None:
    cloud = driver(rig)
    assert [location.name for location in cloud.list_locations()] == ["z1", "z2"]
    assert "tiny" in [size.name for size in cloud.list_sizes()]
    assert "net-z1" in [network.name for network in cloud.ex_list_networks()]
    assert cloud.ex_limits()["max_instances"] == -1


def test_it_makes_and_destroys_a_node_with_a_volume(rig: Rig) -> None:
    cloud, wanted = driver(rig), rig.template()
    image = next(one for one in cloud.list_images() if one.id == wanted)
    size = next(one for one in cloud.list_sizes() if one.name == "tiny")
    place = next(one for one in cloud.list_locations() if one.name == "z1")
    group = cloud.ex_create_affinity_group("g", cloud.ex_list_affinity_group_types()[0])
    node = cloud.create_node(
        name="n1", image=image, size=size, location=place, ex_affinity_groups=[group], ex_start_vm=True
    )
    assert [one.id for one in cloud.list_nodes()] == [node.id]
    assert node.public_ips == ["127.40.0.2"]  # to libcloud, loopback is not private
    assert node.state == "running"
    volume = cloud.create_volume(2, "v1", location=place, ex_volume_type="custom")
    assert cloud.attach_volume(node, volume)
    assert cloud.detach_volume(volume)
    assert cloud.destroy_volume(volume)
    assert cloud.reboot_node(node)
    assert cloud.ex_create_tags([node.id], "UserVm", {"a": "b"})
    assert cloud.destroy_node(node, ex_expunge=True)
    assert cloud.list_nodes() == []
    assert cloud.ex_delete_affinity_group(group)


def test_it_has_keys_guards_networks_and_addresses(rig: Rig) -> None:
    cloud = driver(rig)
    pair = cloud.import_key_pair_from_string("k", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me")
    assert [one.name for one in cloud.list_key_pairs()] == ["k"]
    assert cloud.delete_key_pair(pair)
    assert cloud.create_key_pair("made").private_key
    assert cloud.ex_create_security_group("web")["name"] == "web"
    cloud.ex_authorize_security_group_ingress("web", "tcp", "127.0.0.0/8", startport=80, endport=80)
    assert [one["name"] for one in cloud.ex_list_security_groups()] == ["default", "web"]
    assert cloud.ex_delete_security_group("web")
    place = next(one for one in cloud.list_locations() if one.name == "z1")
    offering = next(one for one in cloud.ex_list_network_offerings() if "SourceNat" in one.name)
    network = cloud.ex_create_network("n", "n", offering, place, gateway="127.70.0.1", netmask="255.255.0.0")
    assert cloud.ex_delete_network(network, force=False)
    address = cloud.ex_allocate_public_ip(location=place, network_id=rig.network())
    assert [one.address for one in cloud.ex_list_public_ips()] == [address.address]
    assert cloud.ex_release_public_ip(address)


def test_it_stops_starts_and_snapshots(rig: Rig) -> None:
    cloud = driver(rig)
    rig.deploy(name="n1")
    (node,) = cloud.list_nodes()
    assert cloud.ex_stop(node) == "Stopped"
    assert cloud.ex_start(node) == "Running"
    place = next(one for one in cloud.list_locations() if one.name == "z1")
    volume = cloud.create_volume(1, "v1", location=place, ex_volume_type="custom")
    cloud.attach_volume(node, volume)
    snapshot = cloud.create_volume_snapshot(volume)
    assert [one.id for one in cloud.list_snapshots()] == [snapshot.id]
    assert cloud.destroy_volume_snapshot(snapshot)
    assert cloud.ex_list_disk_offerings()


def test_what_it_sends_loosely_passes_where_the_cloud_is_as_lax_as_real_ones(rig: Rig) -> None:
    """It sends `forced=None`, which real servers take for false."""
    cloud = driver(rig)
    place = next(one for one in cloud.list_locations() if one.name == "z1")
    offering = next(one for one in cloud.ex_list_network_offerings() if "SourceNat" in one.name)
    network = cloud.ex_create_network("n", "n", offering, place, gateway="127.70.0.1", netmask="255.255.0.0")
    with pytest.raises(ProviderError, match="not a boolean"):
        cloud.ex_delete_network(network)
    rig.set(coterie_strict_parameters="false")
    assert cloud.ex_delete_network(network)
    assert "forced is no boolean" in rig.witness.mistakes.pop()
