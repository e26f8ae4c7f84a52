"""The settings of the agent as Nova takes them."""

from __future__ import annotations

import base64
import json

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.openstack.create_vm import userdata
from coterie.cpi.kit.agent_settings import AgentSettings


def test_userdata_is_complete_and_bounded() -> None:
    settings = AgentSettings("agent", "vm", {"a": {"mac": "fa:16:3e:00:00:01"}}, {}, {}, {})
    document = json.loads(base64.b64decode(userdata(settings)))
    assert document["networks"]["a"]["mac"] == "fa:16:3e:00:00:01"
    huge = AgentSettings("agent", "vm", {}, {}, {}, {"big": "x" * 60000})
    with pytest.raises(InvalidCall, match="65535"):
        userdata(huge)
