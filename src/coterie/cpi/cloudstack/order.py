"""The cloud_properties of a VM and of a disk, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import InvalidCall

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class Order:
    """`disk` and `root_disk_size` are MB, as everywhere in BOSH; CloudStack wants GiB, rounded up."""

    compute_offering: str | None = None
    ephemeral_disk_offering: str | None = None
    disk: int | None = None
    root_disk_size: int | None = None
    cpu: int | None = None
    ram_mb: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    key_name: str | None = None
    public_key: str | None = None
    zone: str | None = None
    security_groups: tuple[str, ...] = ()
    affinity_groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskOrder:
    disk_offering: str | None = None
    zone: str | None = None
    name: str | None = None


def read_order(properties: Mapping[str, Any]) -> Order:
    order = Order(**_read(properties, _VM))
    if not order.compute_offering:
        raise InvalidCall("cloud_properties.compute_offering is missing", remedy="name a compute offering")
    if order.ephemeral_disk_offering is None and order.disk is not None:
        raise InvalidCall(
            "cloud_properties.disk is given without an offering",
            remedy="add ephemeral_disk_offering, or leave out disk",
        )
    return order


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**_read(properties, _DISK))


def gib(size_mb: int) -> int:
    """Never smaller than asked."""
    return -(-size_mb // MIB_PER_GIB)


def _read(properties: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    found = {}
    for key, value in properties.items():
        if key not in readers:
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(readers)}")
        if value is None:
            continue
        try:
            found[key] = readers[key](value)
        except ValueError as error:
            raise InvalidCall(f"cloud_properties.{key} is {value!r}", remedy=str(error)) from None
    return found


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("give a text")


def _size(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ValueError("give a whole number above 0")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise ValueError("give a list of names")


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(key): str(one) for key, one in value.items()}
    raise ValueError("give an object of texts")


_VM: dict[str, Callable[[Any], Any]] = {
    "compute_offering": _text,
    "ephemeral_disk_offering": _text,
    "disk": _size,
    "root_disk_size": _size,
    "cpu": _size,
    "ram_mb": _size,
    "details": _pairs,
    "key_name": _text,
    "public_key": _text,
    "zone": _text,
    "security_groups": _texts,
    "affinity_groups": _texts,
    "tags": _pairs,
}
_DISK: dict[str, Callable[[Any], Any]] = {"disk_offering": _text, "zone": _text, "name": _text}
