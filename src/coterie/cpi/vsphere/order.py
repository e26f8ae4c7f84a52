"""The cloud_properties of a VM, a disk and a stemcell, read and checked; a mistake is named by its field. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import InvalidCall


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
    return Order(**_read(properties, _VM))


def read_disk_order(properties: Mapping[str, Any]) -> DiskOrder:
    return DiskOrder(**_read(properties, _DISK))


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


def _room(value: Any) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else _size(value)


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
    "cpu": _size,
    "ram": _size,
    "disk": _room,
    "zone": _text,
    "datastores": _texts,
    "vmx": _pairs,
}
_DISK: dict[str, Callable[[Any], Any]] = {"type": _provisioning, "zone": _text, "datastores": _texts}
