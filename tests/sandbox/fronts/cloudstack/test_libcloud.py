"""apache-libcloud's CloudStack driver, unchanged, against the served cloud."""

from __future__ import annotations

from typing import Any

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
