"""The cloud_properties of a VM and of a disk, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import InvalidCall
from coterie.cpi.contract.checks import read_properties, size, text

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
    order = Order(**read_properties(properties, _VM))
    if not order.compute_offering:
        raise InvalidCall("cloud_properties.compute_offering is missing", remedy="name a compute offering")
    if order.ephemeral_disk_offering is None and order.disk is not None:
        raise InvalidCall(
            "cloud_properties.disk is given without an offering",
            remedy="add ephemeral_disk_offering, or leave out disk",
        )
    return order


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**read_properties(properties, _DISK))


def gib(size_mb: int) -> int:
    """Never smaller than asked."""
    return -(-size_mb // MIB_PER_GIB)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise ValueError("give a list of names")


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(key): str(one) for key, one in value.items()}
    raise ValueError("give an object of texts")


_VM: dict[str, Callable[[Any], Any]] = {
    "compute_offering": text,
    "ephemeral_disk_offering": text,
    "disk": size,
    "root_disk_size": size,
    "cpu": size,
    "ram_mb": size,
    "details": _pairs,
    "key_name": text,
    "public_key": text,
    "zone": text,
    "security_groups": _texts,
    "affinity_groups": _texts,
    "tags": _pairs,
}
_DISK: dict[str, Callable[[Any], Any]] = {"disk_offering": text, "zone": text, "name": text}
