"""The cloud_properties of a VM: its size, zone and own security groups. Unknown keys are mistakes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Form, Json, NoPlacement
from coterie.cpi.kit.readers import one_of, size, text, texts, whole
from coterie.sandbox.fit import Demand
from coterie.sandbox.hosts import HostView

TYPES: dict[str, dict[str, int]] = {
    "s": {"cpu": 1, "ram_mb": 2048, "disk_mb": 10_240},
    "m": {"cpu": 2, "ram_mb": 4096, "disk_mb": 20_480},
    "l": {"cpu": 4, "ram_mb": 8192, "disk_mb": 40_960},
    "xl": {"cpu": 8, "ram_mb": 16_384, "disk_mb": 81_920},
}
_SYNONYMS = {"ram": "ram_mb", "ephemeral_disk_mb": "disk_mb"}
_SIZES = ("cpu", "ram_mb", "disk_mb")


@dataclass(frozen=True, slots=True)
class Order:
    """`zone` None: the caller named none."""

    size: Demand
    security_groups: tuple[str, ...]


def read_order(cloud_properties: Mapping[str, Any]) -> Order:
    """What is ordered: a type of the table, sizes of one's own, or a type with some sizes changed."""
    given = VM.read(cloud_properties, "cloud_properties")
    own = {_SYNONYMS.get(key, key): value for key, value in given.items()}
    sizes = {**TYPES[own.get("instance_type", "s")], **{key: own[key] for key in _SIZES if key in own}}
    return Order(Demand(**sizes, zone=own.get("zone")), own.get("security_groups", ()))


def smallest(requirements: Mapping[str, int], hosts: Sequence[HostView]) -> Json:
    """Any size can be had, so what is required is the smallest fit, if one host is large enough for it."""
    wanted = (requirements["cpu"], requirements["ram"], requirements["ephemeral_disk_size"])
    if not any(h.cpu >= wanted[0] and h.ram_mb >= wanted[1] and h.disk_mb >= wanted[2] for h in hosts):
        raise NoPlacement(
            f"no VM of {wanted[0]} cpu, {wanted[1]} MB ram and {wanted[2]} MB disk can be had",
            why="no host of the datacenter is that large",
            remedy="ask for less, or add a larger host",
        )
    return dict(zip(_SIZES, wanted, strict=True))


VM = Form(
    {
        "cpu": size,
        "ram_mb": size,
        "disk_mb": whole(0),
        "ram": size,
        "ephemeral_disk_mb": whole(0),
        "instance_type": one_of(*TYPES),
        "zone": text,
        "security_groups": texts,
    }
)
