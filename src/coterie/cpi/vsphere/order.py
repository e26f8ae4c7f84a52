"""The cloud_properties of a VM, a disk and a stemcell, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract.checks import read_properties, size, text


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
    return Order(**read_properties(properties, _VM))


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**read_properties(properties, _DISK))


def _room(value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else size(value)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("give a list of names; * and ? stand for any characters")


def _pairs(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping) and not any(str(key).startswith(("coterie", "guestinfo.coterie")) for key in value):
        return {str(key): str(one) for key, one in value.items()}
    raise ValueError("give an object of texts, with keys that do not begin with coterie")


def _provisioning(value: Any) -> str:
    if value in ("thin", "thick", "eagerZeroedThick"):
        return str(value)
    raise ValueError("use thin, thick or eagerZeroedThick")


_VM: dict[str, Callable[[Any], Any]] = {
    "cpu": size,
    "ram": size,
    "disk": _room,
    "zone": text,
    "datastores": _texts,
    "vmx": _pairs,
}
_DISK: dict[str, Callable[[Any], Any]] = {"type": _provisioning, "zone": text, "datastores": _texts}
