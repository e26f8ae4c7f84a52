"""What the agent inside a VM is told, as userdata: complete, so that it needs no registry. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, Networks
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.properties import Settings

_LIMIT = 65535  # of the base64 text, Nova's own
SYSTEM, EPHEMERAL = "/dev/vda", "/dev/vdb"


@dataclass(frozen=True, slots=True)
class Told:
    """What a VM is told of itself. `ports`: its card by the name of each network."""

    agent_id: str
    name: str
    networks: Networks
    ports: Mapping[str, Row]
    env: Json
    keys: Sequence[str]
    ephemeral: bool


def own_disks(*, ephemeral: bool) -> Json:
    """The disks that a VM is born with; without a second one the agent divides the first."""
    return {"system": SYSTEM, "ephemeral": EPHEMERAL if ephemeral else None}


def userdata(settings: Settings, told: Told) -> str:
    """Base64, as Nova takes it; what is too long is refused before anything boots."""
    document = {
        "agent_id": told.agent_id,
        "vm": {"name": told.name},
        "server": {"name": told.name},
        "networks": {label: _network(settings, told, label) for label in told.ports},
        "disks": {**own_disks(ephemeral=told.ephemeral), "persistent": {}},
        "env": _with_keys(told.env, told.keys),
        "dns": {"nameserver": [one for spec in told.networks.values() for one in spec.get("dns") or ()]},
        **{key: value for key, value in settings.agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    text = base64.b64encode(json.dumps(document, separators=(",", ":")).encode()).decode()
    if len(text) > _LIMIT:
        raise InvalidCall(
            f"the agent's settings have {len(text)} bytes in base64, Nova takes {_LIMIT}", remedy="shorten env"
        )
    return text


def _network(settings: Settings, told: Told, label: str) -> Json:
    return {**told.networks[label], "mac": told.ports[label].get("mac_address"), "use_dhcp": settings.use_dhcp}


def _with_keys(env: Mapping[str, Any], keys: Sequence[str]) -> Json:
    if not keys:
        return dict(env)
    bosh = dict(env.get("bosh") or {})
    bosh["authorized_keys"] = [*(bosh.get("authorized_keys") or ()), *keys]
    return {**env, "bosh": bosh}
