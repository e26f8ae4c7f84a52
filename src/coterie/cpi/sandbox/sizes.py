"""The cloud_properties of a VM: its size, zone and own security groups. Unknown keys are mistakes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, NoPlacement
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
KEYS = (*_SIZES, *_SYNONYMS, "instance_type", "zone", "security_groups")


@dataclass(frozen=True, slots=True)
class Order:
    """`zone` None: the caller named none."""

    size: Demand
    security_groups: tuple[str, ...]


def read_order(cloud_properties: Mapping[str, Any]) -> Order:
    """What is ordered: a type of the table, sizes of one's own, or a type with some sizes changed."""
    for key in cloud_properties:
        if key not in KEYS:
            raise _mistake(key, "is not known", f"use one of: {', '.join(KEYS)}")
    sizes = dict(_type(cloud_properties))
    for key, value in cloud_properties.items():
        name = _SYNONYMS.get(key, key)
        if name in _SIZES:
            sizes[name] = _number(key, value)
    zone = cloud_properties.get("zone")
    if zone is not None and (not isinstance(zone, str) or not zone):
        raise _mistake("zone", f"is {zone!r}", "name a zone of the datacenter")
    return Order(Demand(**sizes, zone=zone), _names(cloud_properties.get("security_groups") or ()))


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


def _type(cloud_properties: Mapping[str, Any]) -> Mapping[str, int]:
    name = cloud_properties.get("instance_type", "s")
    if not isinstance(name, str) or name not in TYPES:
        raise _mistake("instance_type", f"is {name!r}", f"use one of: {', '.join(TYPES)}")
    return TYPES[name]


def _number(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= (0 if "disk" in key else 1):
        return value
    raise _mistake(key, f"is {value!r}", "give a whole number above 0")


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    raise _mistake("security_groups", f"is {value!r}", "list names of security groups")


def _mistake(key: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"cloud_properties.{key} {what}", remedy=remedy)
