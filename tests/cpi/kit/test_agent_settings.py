"""The document for the agent."""

from __future__ import annotations

import base64
import json

import pytest

from coterie.cpi.contract import InvalidCall, Json, Mark
from coterie.cpi.kit.agent_settings import AgentSettings, base64_text, compact_json, dhcp_settings
from coterie.cpi.kit.create_vm import CreateVmArgs

REQUESTED = {"a": {"type": "manual", "ip": "10.0.0.5", "dns": ["9.9.9.9"]}}


def test_the_document_is_complete() -> None:
    settings = AgentSettings(
        agent_id="agent",
        vm_name="vm",
        networks={"a": {"mac": "m"}},
        requested_networks=REQUESTED,
        disks={"system": "/dev/vda", "ephemeral": None},
        env={"bosh": {"authorized_keys": ["old"]}},
        keys=["new"],
        cloud={"mbus": "nats://x", "odd": 1},
        more={"userdata_sources": []},
    )
    assert settings.document() == {
        "agent_id": "agent",
        "vm": {"name": "vm"},
        "server": {"name": "vm"},
        "networks": {"a": {"mac": "m"}},
        "disks": {"system": "/dev/vda", "ephemeral": None, "persistent": {}},
        "env": {"bosh": {"authorized_keys": ["old", "new"]}},
        "dns": {"nameserver": ["9.9.9.9"]},
        "mbus": "nats://x",
        "userdata_sources": [],
    }


def test_a_registry_is_named_beside_env() -> None:
    env = {"bosh": {"registry": {"endpoint": "http://r", "instance": "i"}, "group": "g"}}
    document = AgentSettings("agent", "vm", {}, {}, {}, env).document()
    assert document["registry"] == {"endpoint": "http://r"}
    assert document["server"] == {"name": "i"}
    assert document["env"] == {"bosh": {"group": "g"}}


def test_it_is_written_without_blanks() -> None:
    raw = compact_json({"a": [1, 2]})
    assert raw == b'{"a":[1,2]}'
    assert json.loads(base64.b64decode(base64_text(raw))) == {"a": [1, 2]}


def arguments(env: Json) -> CreateVmArgs[None]:
    return CreateVmArgs("agent", "image", None, REQUESTED, (), (), env, Mark("d" * 36, "a" * 26))


def test_settings_for_dhcp_are_the_same_in_every_repeat() -> None:
    disks = {"system": "/dev/vda", "ephemeral": None}
    one = dhcp_settings(arguments({"b": 1, "a": 2}), disks, {"mbus": "nats://x"}, most=1000, cloud="X", keys=["key"])
    assert one == dhcp_settings(
        arguments({"a": 2, "b": 1}), disks, {"mbus": "nats://x"}, most=1000, cloud="X", keys=["key"]
    )
    document = json.loads(one)
    assert document["networks"]["a"] == {**REQUESTED["a"], "use_dhcp": True}
    assert document["vm"]["name"] == Mark("d" * 36, "a" * 26).name()
    assert document["env"]["bosh"]["authorized_keys"] == ["key"]


def test_settings_that_are_too_long_are_refused_beforehand() -> None:
    with pytest.raises(InvalidCall, match="X takes 100"):
        dhcp_settings(arguments({}), {}, {}, most=100, cloud="X")
