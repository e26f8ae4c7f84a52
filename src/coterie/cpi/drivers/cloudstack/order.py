"""The cloud_properties of a VM and of a disk, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import Form, Slip
from coterie.cpi.kit.readers import pairs, size, text, texts

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
    return Order(**VM.read(properties, "cloud_properties"))


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**DISK.read(properties, "cloud_properties"))


def gib(size_mb: int) -> int:
    """Never smaller than asked."""
    return -(-size_mb // MIB_PER_GIB)


def _between(values: Mapping[str, Any]) -> Iterable[Slip]:
    if "disk" in values and "ephemeral_disk_offering" not in values:
        yield Slip("disk", "is given without an offering", "add ephemeral_disk_offering, or leave out disk")


VM = Form(
    {
        "compute_offering": text,
        "ephemeral_disk_offering": text,
        "disk": size,
        "root_disk_size": size,
        "cpu": size,
        "ram_mb": size,
        "details": pairs,
        "key_name": text,
        "public_key": text,
        "zone": text,
        "security_groups": texts,
        "affinity_groups": texts,
        "tags": pairs,
    },
    needed={"compute_offering": "name a compute offering"},
    between=_between,
)
DISK = Form({"disk_offering": text, "zone": text, "name": text})
