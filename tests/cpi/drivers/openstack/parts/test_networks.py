"""The NICs that the networks of create_vm mean, and the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from coterie.cpi.contract import InvalidCall, Mark
from coterie.cpi.drivers.openstack.networks import FloatingIps, networks_with_addresses, read_nics
from coterie.cpi.drivers.openstack.properties import NETWORK
from coterie.cpi.drivers.openstack.rows import Rows, description
from coterie.cpi.kit.create_vm import NetworkRequest, read_networks
from coterie.cpi.kit.parts import Parts
from coterie.engine.part_records import LedgerPartRecords
from coterie.ids import Ids
from coterie.ledger.store import Ledger


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


def test_an_address_whose_call_died_before_it_was_recorded_is_recorded_by_the_next(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, address = Mark(str(uuid4()), Ids().intent()), "192.0.2.9"
    records = LedgerPartRecords(lambda: ledger, "lab")
    row = {"id": "ip-1", "floating_ip_address": address, "description": description(mark), "port_id": None}
    client: Any = SimpleNamespace(director_uuid=mark.director, project="p")
    monkeypatch.setattr(Rows, "list_all", lambda *_, **__: [row])
    addresses = FloatingIps(client, Rows(client, Parts(records)), client)
    records.intend(mark, "ip", address)
    addresses.claim(NetworkRequest("v", "vip", address, {}), {"id": "port"}, mark)
    assert [(part.name, part.cid) for part in records.list_of(mark)] == [(address, "ip-1")]
