"""What the agent inside a VM is told, as userdata: complete, so that it needs no registry. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, Networks
from coterie.cpi.drivers.cloudstack.properties import Settings

DEVICES = {"KVM": "/dev/vd", "XenServer": "/dev/xvd", "XCP-ng": "/dev/xvd", "VMware": "/dev/sd"}


def device_path(hypervisor: str, device: int) -> str:
    """Device 0 is the root disk."""
    return f"{DEVICES.get(hypervisor, '/dev/vd')}{chr(ord('a') + device)}"


def own_disks(hypervisor: str, *, ephemeral: bool) -> Json:
    """The disks that a VM is born with."""
    return {"system": device_path(hypervisor, 0), "ephemeral": device_path(hypervisor, 1) if ephemeral else None}


@dataclass(frozen=True, slots=True)
class Told:
    """What a VM is told of itself. `sources`: where it can read this again."""

    agent_id: str
    name: str
    networks: Networks
    env: Json
    keys: Sequence[str]
    sources: Sequence[Mapping[str, str]]
    ephemeral: bool


def userdata(settings: Settings, told: Told) -> str:
    """Base64, as the deploy takes it; what is too long is refused before anything is made."""
    env, registry = _without_registry(told.env)
    document = {
        "agent_id": told.agent_id,
        "vm": {"name": told.name},
        "server": {"name": registry.get("instance") or told.name},
        "networks": {
            label: {**spec, "use_dhcp": True} for label, spec in told.networks.items() if spec.get("type") != "vip"
        },
        "disks": {**own_disks(settings.hypervisor, ephemeral=told.ephemeral), "persistent": {}},
        "env": _with_keys(env, told.keys),
        "dns": {"nameserver": [one for spec in told.networks.values() for one in spec.get("dns") or ()]},
        "userdata_sources": list(told.sources),
        **({"registry": {"endpoint": registry["endpoint"]}} if registry.get("endpoint") else {}),
        **{key: value for key, value in settings.agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    raw = json.dumps(document, separators=(",", ":")).encode()
    if len(raw) > settings.userdata_limit:
        raise InvalidCall(
            f"the agent's settings have {len(raw)} bytes, CloudStack takes {settings.userdata_limit}",
            remedy="shorten env, or raise vm.userdata.max.length there and properties.userdata_limit here",
        )
    return base64.b64encode(raw).decode()


def _without_registry(env: Json) -> tuple[Json, Mapping[str, str]]:
    """Agents of old ask a registry: where, and under which name, must stand beside `env`, where they look for it."""
    bosh = dict(env.get("bosh") or {})
    registry = bosh.pop("registry", None) or {}
    return ({**env, "bosh": bosh} if registry else dict(env)), registry


def _with_keys(env: Mapping[str, Any], keys: Sequence[str]) -> Json:
    """The agent cannot read keypairs from CloudStack's metadata, so they are told here."""
    if not keys:
        return dict(env)
    bosh = dict(env.get("bosh") or {})
    bosh["authorized_keys"] = [*(bosh.get("authorized_keys") or ()), *keys]
    return {**env, "bosh": bosh}
