"""The cloud_properties of a VM, a disk and a stemcell, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import Form
from coterie.cpi.drivers.vsphere.properties import patterns
from coterie.cpi.kit.readers import one_of, pairs, size, text, whole


@dataclass(frozen=True, slots=True)
class Order:
    """Sizes are MB, as everywhere in BOSH. `vmx`: further settings of the VM, handed on as they are."""

    cpu: int = 1
    ram: int = 1024
    disk: int = 0
    zone: str | None = None
    datastores: tuple[str, ...] = ()
    vmx: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskOrder:
    type: str = "thin"
    zone: str | None = None
    datastores: tuple[str, ...] = ()


def read_order(properties: Mapping[str, Any]) -> Order:
    return Order(**VM.read(properties, "cloud_properties"))


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**DISK.read(properties, "cloud_properties"))


def _vmx(value: Any) -> dict[str, str]:
    found = pairs(value)
    if any(key.startswith(("coterie", "guestinfo.coterie")) for key in found):
        raise ValueError("use keys that do not begin with coterie")
    return found


VM = Form(
    {
        "cpu": size,
        "ram": size,
        "disk": whole(0),
        "zone": text,
        "datastores": patterns,
        "vmx": _vmx,
    }
)
DISK = Form({"type": one_of("thin", "thick", "eagerZeroedThick"), "zone": text, "datastores": patterns})
