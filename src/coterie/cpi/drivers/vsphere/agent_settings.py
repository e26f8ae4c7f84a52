"""What the agent inside a VM is told, complete, so that it needs no registry. Pure."""

from __future__ import annotations

import base64
import json

from coterie.cpi.contract import Json, Networks
from coterie.cpi.drivers.vsphere.iso import image
from coterie.cpi.drivers.vsphere.properties import Settings

SYSTEM, EPHEMERAL = 0, 1  # unit numbers of the disks that every VM has
ISO_NAME = "coterie-env.iso"


def document(
    settings: Settings, agent_id: str, name: str, moid: str, networks: Networks, env: Json, ephemeral: bool
) -> bytes:
    told = {
        "agent_id": agent_id,
        "vm": {"name": name, "id": moid},
        "networks": {label: dict(spec) for label, spec in networks.items() if spec.get("type") != "vip"},
        "disks": {"system": str(SYSTEM), "ephemeral": str(EPHEMERAL) if ephemeral else None, "persistent": {}},
        "env": env,
        **{key: value for key, value in settings.agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    return json.dumps(told, separators=(",", ":")).encode()


def disc(settings: bytes) -> bytes:
    """The CD that BOSH's agents look for: one file `env`."""
    return image("env", settings)


def guestinfo(settings: bytes) -> dict[str, str]:
    return {
        "guestinfo.userdata": base64.b64encode(settings).decode(),
        "guestinfo.userdata.encoding": "base64",
    }
