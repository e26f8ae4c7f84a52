"""What VMs and disks carry beside their mark, so that the ledger of a deployment can be written again from the cloud.

The keys do not begin as drivers' own tags do, which metadata may not have. Values are short: clouds cut them at 255
characters, and what was cut is read as absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.plan.spec import DiskSpec, NodeSpec

NODE, IMAGE, SIZE = "coterie_node", "coterie_image", "coterie_size_mb"
LEDGER = "coterie_ledger"  # the token of the ledger that last looked at the cloud, on its oldest VM


@dataclass(frozen=True, slots=True)
class NodeTags:
    """`spec`: digest of the spec that the VM was made from. `image`: the intent of its image. None: not marked."""

    deployment: str | None
    uuid: str | None
    instance_group: str | None
    index: int | None
    az: str | None = None
    addresses: Mapping[str, str] | None = None
    spec: str | None = None
    server_group: str | None = None
    stemcell: str | None = None
    image: str | None = None
    image_cid: str | None = None
    member: int | None = None


def place_tags(deployment: str, uuid: str, instance_group: str, index: int) -> dict[str, str]:
    """Which node a VM or a disk belongs to, in BOSH's words."""
    return {
        "deployment": deployment,
        "id": uuid,
        "job": instance_group,
        "instance_group": instance_group,
        "index": str(index),
    }


def vm_tags(
    spec: NodeSpec, addresses: Mapping[str, str], server_group: str | None, image: str | None
) -> dict[str, str]:
    """`server_group`: its CID. `image`: intent and CID, with a blank between."""
    node: dict[str, Any] = {"az": spec.az, "ips": dict(addresses), "spec": digest(spec), "group": server_group}
    if spec.member is not None:
        node["member"] = spec.member
    tags = {NODE: json.dumps(node, separators=(",", ":"))}
    return {**tags, IMAGE: f"{spec.stemcell} {image}"} if image else tags


def disk_tags(disk: DiskSpec) -> dict[str, str]:
    return {SIZE: str(disk.size_mb)}


def read_node_tags(tags: Mapping[str, Any]) -> NodeTags:
    index = str(tags.get("index", ""))
    node, image = _json(str(tags.get(NODE) or "")), str(tags.get(IMAGE) or "").rsplit(" ", 2)
    stemcell, intent, cid = image if len(image) == 3 else (None, None, None)
    return NodeTags(
        deployment=_text(tags.get("deployment")),
        uuid=_text(tags.get("id")),
        instance_group=_text(tags.get("instance_group")),
        index=int(index) if index.isdigit() else None,
        az=node.get("az"),
        addresses=node.get("ips"),
        spec=node.get("spec"),
        server_group=node.get("group"),
        stemcell=stemcell,
        image=intent,
        image_cid=cid,
        member=node["member"] if isinstance(node.get("member"), int) else None,
    )


def digest(spec: NodeSpec) -> str:
    """Without env and user data, which may hold secrets that could be guessed from it."""
    known = [spec.az, spec.cloud, spec.stemcell, dict(spec.vm), dict(spec.networks)]
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
