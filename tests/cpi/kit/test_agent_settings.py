"""The document for the agent."""

from __future__ import annotations

import base64
import json

from coterie.cpi.kit.agent_settings import AgentSettings, base64_text, compact_json

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
