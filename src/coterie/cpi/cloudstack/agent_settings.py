"""What the agent inside a VM is told, as userdata: complete, so that it needs no registry. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.properties import Settings
from coterie.cpi.contract import InvalidCall, Json, Networks

_DATA_SERVER = "http://data-server./latest/user-data"
_CONFIG_DRIVE = "/cloudstack/userdata/user_data.txt"
DEVICES = {"KVM": "/dev/vd", "XenServer": "/dev/xvd", "XCP-ng": "/dev/xvd", "VMware": "/dev/sd"}


def device_path(hypervisor: str, device: int) -> str:
    """Device 0 is the root disk."""
    return f"{DEVICES.get(hypervisor, '/dev/vd')}{chr(ord('a') + device)}"


def userdata(
    settings: Settings, agent_id: str, name: str, networks: Networks, env: Json, rows: Sequence[Row], ephemeral: bool
) -> str:
    """Base64, as the deploy takes it; what is too long is refused before anything is made."""
    document = {
        "agent_id": agent_id,
        "vm": {"name": name},
        "server": {"name": name},
        "networks": {
            label: {**spec, "use_dhcp": True} for label, spec in networks.items() if spec.get("type") != "vip"
        },
        "disks": {
            "system": device_path(settings.hypervisor, 0),
            "ephemeral": device_path(settings.hypervisor, 1) if ephemeral else None,
            "persistent": {},
        },
        "env": _with_keys(env, settings.ssh_public_keys),
        "dns": {"nameserver": [one for spec in networks.values() for one in spec.get("dns") or ()]},
        "userdata_sources": sources(rows),
        **{key: value for key, value in settings.agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    raw = json.dumps(document, separators=(",", ":")).encode()
    if len(raw) > settings.userdata_limit:
        raise InvalidCall(
            f"the agent's settings have {len(raw)} bytes, CloudStack takes {settings.userdata_limit}",
            remedy="shorten env, or raise vm.userdata.max.length there and properties.userdata_limit here",
        )
    return base64.b64encode(raw).decode()


def sources(networks: Sequence[Row]) -> list[dict[str, str]]:
    """Where userdata can be read, best first: by the name that routers answer, at the router itself, on a drive."""
    found = [{"type": "http", "url": _DATA_SERVER}]
    for network in networks:
        if _provider(network) == "ConfigDrive":
            return [{"type": "config-drive", "path": _CONFIG_DRIVE}]
        if network.get("gateway") and network.get("type") == "Isolated":
            found.append({"type": "http", "url": f"http://{network['gateway']}/latest/user-data"})
    return [*found, {"type": "dhcp-server", "path": "/latest/user-data"}]


def _provider(network: Row) -> str | None:
    for service in network.get("service") or ():
        if service.get("name") == "UserData":
            providers = service.get("provider") or ()
            return str(providers[0].get("name")) if providers else None
    return None


def _with_keys(env: Mapping[str, Any], keys: Sequence[str]) -> Json:
    """The agent cannot read keypairs from CloudStack's metadata, so they are told here."""
    if not keys:
        return dict(env)
    bosh = dict(env.get("bosh") or {})
    bosh["authorized_keys"] = [*(bosh.get("authorized_keys") or ()), *keys]
    return {**env, "bosh": bosh}
