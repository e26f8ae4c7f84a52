"""The NICs that the networks of create_vm mean, and the answer."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.openstack.networks import networks_with_addresses, read_nics
from coterie.cpi.drivers.openstack.properties import NETWORK
from coterie.cpi.kit.create_vm import read_networks


def test_nics_begin_with_the_gateway_and_share_a_nic_group() -> None:
    networks = {
        "a": {"type": "manual", "ip": "10.0.0.5", "cloud_properties": {"net_id": "n"}, "nic_group": "1"},
        "b": {"type": "manual", "ip": "2001:db8::5", "cloud_properties": {"net_id": "n"}, "nic_group": "1"},
        "c": {"type": "dynamic", "ip": "10.9.9.9", "default": ["gateway"], "cloud_properties": {"name": "m"}},
        "d": {"type": "vip", "ip": "192.0.2.9", "cloud_properties": {}},
    }
    requests = read_networks(networks, NETWORK)
    first, second = read_nics([one for one in requests if one.type != "vip"])
    assert (first.labels, first.ips) == (("c",), ())
    assert (second.labels, second.ips) == (("a", "b"), ("10.0.0.5", "2001:db8::5"))
    port = {"fixed_ips": [{"ip_address": "10.3.0.1"}], "mac_address": "m"}
    answer = networks_with_addresses(networks, {"c": port})
    assert (answer["c"]["ip"], answer["c"]["mac"]) == ("10.3.0.1", "m")


@pytest.mark.parametrize(
    ("networks", "word"),
    [
        ({}, "at least one"),
        ({"a": {"type": "manual"}}, "networks.a.ip"),
        ({"a": {"type": "manual", "ip": "ten"}}, "networks.a.ip"),
        ({"a": {"type": "static"}}, "networks.a.type"),
        ({"a": {"type": "dynamic", "cloud_properties": {"subnet": "x"}}}, "networks.a.cloud_properties.subnet"),
    ],
)
def test_a_wrong_network_is_named(networks: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        read_nics(read_networks(networks, NETWORK))
    assert word in f"{caught.value} {caught.value.remedy}"
