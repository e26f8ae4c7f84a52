"""The settings of the agent as Nova takes them, and what may fail after the boot."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from peers.agent_rules import AGENT, TWO_NICS_AND_A_VIP, broken_rules

from coterie.cpi.contract import InvalidCall, Mark, Runtime, Unavailable
from coterie.cpi.drivers.openstack.create_vm import Boots, userdata
from coterie.cpi.drivers.openstack.disks import Volumes
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.networks import FloatingIps, Ports, VmPorts
from coterie.cpi.drivers.openstack.properties import read_vm_spec
from coterie.cpi.kit.agent_settings import AgentSettings

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
PORT = {"id": "p", "mac_address": "fa:16:3e:00:00:01", "fixed_ips": [{"ip_address": "10.0.0.5"}]}


def test_userdata_is_complete_and_bounded() -> None:
    settings = AgentSettings("agent", "vm", {"a": {"mac": "fa:16:3e:00:00:01"}}, {}, {}, {})
    document = json.loads(base64.b64decode(userdata(settings)))
    assert document["networks"]["a"]["mac"] == "fa:16:3e:00:00:01"
    huge = AgentSettings("agent", "vm", {}, {}, {}, {"big": "x" * 60000})
    with pytest.raises(InvalidCall, match="65535"):
        userdata(huge)


def test_the_settings_are_enough_for_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = {
        "front": {**TWO_NICS_AND_A_VIP["front"], "ip": "10.0.0.5"},
        "back": {**TWO_NICS_AND_A_VIP["back"], "cloud_properties": {"net_id": "n"}},
        "public": {**TWO_NICS_AND_A_VIP["public"], "ip": "172.24.0.9"},
    }
    ports = {"front": PORT, "back": {**PORT, "id": "q", "mac_address": "fa:16:3e:00:00:02"}}
    booted: list[Any] = []

    def boot(self: Boots, request: Any, *arguments: Any, **more: Any) -> str:
        booted.append(request)
        return "vm"

    monkeypatch.setattr(Boots, "boot", boot)
    monkeypatch.setattr(Lookups, "flavor", lambda self, wanted: {"id": "f"})
    monkeypatch.setattr(Lookups, "image", lambda self, cid: {"id": "i"})
    monkeypatch.setattr(Volumes, "block_devices", lambda self, *arguments: [])
    monkeypatch.setattr(Ports, "create", lambda self, *arguments: VmPorts(ports, are_new=True))
    monkeypatch.setattr(FloatingIps, "claim", lambda self, *arguments: {"id": "fip"})
    monkeypatch.setattr(FloatingIps, "attach", lambda self, *arguments: None)
    runtime = Runtime(MARK.director, None)  # type: ignore[arg-type] # nothing is handed to a writer
    cpi = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9", "agent": AGENT}, runtime)
    cpi.create_vm("agent", "s", {"instance_type": "f"}, requested, [], {}, mark=MARK)
    settings = json.loads(base64.b64decode(booted[0]["server"]["user_data"]))
    assert broken_rules(settings, requested, [port["mac_address"] for port in ports.values()]) == []


def test_nothing_is_looked_up_once_the_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    booted: list[Any] = []

    def boot(self: Boots, request: Any, *arguments: Any, **more: Any) -> str:
        booted.append(request)
        return "vm"

    def flavor(self: Lookups, wanted: str) -> dict[str, Any]:
        if booted:
            raise Unavailable("Nova is away", remedy="wait")
        return {"id": "f", "OS-FLV-EXT-DATA:ephemeral": 5}

    monkeypatch.setattr(Boots, "boot", boot)
    monkeypatch.setattr(Lookups, "flavor", flavor)
    monkeypatch.setattr(Lookups, "image", lambda self, cid: {"id": "i"})
    monkeypatch.setattr(Volumes, "block_devices", lambda self, *arguments: [])
    monkeypatch.setattr(Ports, "create", lambda self, *arguments: VmPorts({"a": PORT}, are_new=True))
    runtime = Runtime(MARK.director, None)  # type: ignore[arg-type] # nothing is handed to a writer
    cpi = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9"}, runtime)
    created = cpi.create_vm("agent", "s", {"instance_type": "f"}, {"a": {"type": "dynamic"}}, [], {}, mark=MARK)
    assert (created.cid, created.networks["a"]["ip"]) == ("vm", "10.0.0.5")
    assert created.disks == {"system": "/dev/vda", "ephemeral": "/dev/vdb"}
    assert json.loads(base64.b64decode(booted[0]["server"]["user_data"]))["disks"]["ephemeral"] == "/dev/vdb"


@pytest.mark.parametrize("word", ["availability_zones", "loadbalancer_pools", "allowed_address_pairs"])
def test_words_of_the_other_cpi_are_refused_with_the_reason(word: str) -> None:
    with pytest.raises(InvalidCall, match=f"cloud_properties.{word} is not supported: ") as caught:
        read_vm_spec({"instance_type": "m1.small", word: ["x"]})
    assert caught.value.remedy
