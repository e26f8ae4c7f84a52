"""The settings document that an agent reads. Pure: facts in, document out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def settings(agent_id: str, instance: str, networks: Mapping[str, Any], env: Json, disks: Json) -> Json:
    """Everything that an agent of api_version 1 wants to know; persistent disks are added as they are attached."""
    bosh = {key: value for key, value in (env.get("bosh") or {}).items() if key != "registry"}
    return {
        "agent_id": agent_id,
        "vm": {"name": instance},
        "networks": {name: dict(network) for name, network in networks.items()},
        "disks": {"system": disks["system"], "ephemeral": disks.get("ephemeral"), "persistent": {}},
        "env": {**env, "bosh": bosh},
        "mbus": _first((bosh.get("mbus") or {}).get("urls")) or "",
        "ntp": bosh.get("ntp") or [],
        "blobstore": _first(bosh.get("blobstores")) or {},
    }


def with_disk(document: Json, disk_cid: str, hint: Any) -> Json:
    """The document with this persistent disk, or without it where the hint is None."""
    disks = document.get("disks") or {}
    others = {cid: disk for cid, disk in (disks.get("persistent") or {}).items() if cid != disk_cid}
    persistent = others if hint is None else {**others, disk_cid: hint}
    return {**document, "disks": {**disks, "persistent": persistent}}


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None
