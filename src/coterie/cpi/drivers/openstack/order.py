"""The cloud_properties of a VM and of a disk, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import Form, Slip
from coterie.cpi.kit.readers import flag, mapping, pairs, size, text, texts

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class VolumeWish:
    """A volume that comes and goes with its VM; `size` in GiB, as BOSH writes root_disk."""

    size: int
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    instance_type: str
    availability_zone: str | None = None
    key_name: str | None = None
    public_key: str | None = None
    security_groups: tuple[str, ...] = ()
    root_disk: VolumeWish | None = None
    ephemeral_disk: VolumeWish | None = None
    boot_from_volume: bool | None = None
    config_drive: bool | None = None
    scheduler_hints: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskOrder:
    type: str | None = None
    availability_zone: str | None = None
    name: str | None = None


def read_order(properties: Mapping[str, Any]) -> Order:
    return Order(**VM.read(properties, "cloud_properties"))


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**DISK.read(properties, "cloud_properties"))


def gib(size_mb: int) -> int:
    """Never smaller than asked."""
    return -(-size_mb // MIB_PER_GIB)


def _volume(value: Any) -> VolumeWish:
    given = mapping(value)
    if set(given) - {"size", "type"} or "size" not in given:
        raise ValueError("write {size: GIB} or {size: GIB, type: VOLUME_TYPE}")
    return VolumeWish(size(given["size"]), text(given["type"]) if given.get("type") else None)


def _between(values: Mapping[str, Any]) -> Iterable[Slip]:
    if "group" in values.get("scheduler_hints", {}):
        remedy = "name the group in the manifest's placement, with adopt: true if it is an operator's"
        yield Slip("scheduler_hints", "has a group, which is not for you to set", remedy)


VM = Form(
    {
        "instance_type": text,
        "availability_zone": text,
        "key_name": text,
        "public_key": text,
        "security_groups": texts,
        "root_disk": _volume,
        "ephemeral_disk": _volume,
        "boot_from_volume": flag,
        "config_drive": flag,
        "scheduler_hints": mapping,
        "metadata": pairs,
    },
    needed={"instance_type": "name a flavor"},
    between=_between,
)
DISK = Form({"type": text, "availability_zone": text, "name": text})
