"""The shape of the building: a layout document becomes host rows. Pure; later changes are `reshape`'s business."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.sandbox.errors import BadRequest
from coterie.slotted import dataclass

SIZES = {"racks": 2, "hosts_per_rack": 3, "cpu": 32, "ram_mb": 131_072, "disk_mb": 4_194_304}
DEFAULT_LAYOUT: dict[str, Any] = {"zones": [{"name": name, **SIZES} for name in ("z1", "z2", "z3")]}
DEFAULT_NETWORKS = ("default",)
_EXAMPLE = "write layout: {zones: [{name: z1, racks: 2, hosts_per_rack: 3, cpu: 32, ram_mb: 131072, disk_mb: 4194304}]}"


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    zone: str
    rack: str
    cpu: int
    ram_mb: int
    disk_mb: int


@dataclass(frozen=True, slots=True)
class Layout:
    """`networks`: the names of the networks that every account finds when it is opened."""

    hosts: tuple[Host, ...]
    networks: tuple[str, ...]


def read_layout(document: Mapping[str, Any] | None) -> Layout:
    """The hosts and networks of a layout document; a mistake in it is named by its field."""
    if document is None:
        document = DEFAULT_LAYOUT
    _require_known(document, {"zones", "networks"}, "layout")
    zones = document.get("zones")
    if not isinstance(zones, list) or not zones:
        raise BadRequest("layout.zones is not a list with at least one zone", remedy=_EXAMPLE)
    hosts = tuple(host for index, zone in enumerate(zones) for host in _hosts(zone, f"layout.zones[{index}]"))
    if len({host.name for host in hosts}) < len(hosts):
        raise BadRequest("layout.zones has two zones of one name", remedy="give every zone a name of its own")
    return Layout(hosts, _networks(document))


def _hosts(zone: Any, field: str) -> Iterator[Host]:
    if not isinstance(zone, Mapping) or not isinstance(zone.get("name"), str) or not zone["name"]:
        raise BadRequest(f"{field}.name is missing or not a text", remedy=_EXAMPLE)
    _require_known(zone, {"name", *SIZES}, field)
    size = {key: _positive(zone.get(key, value), f"{field}.{key}") for key, value in SIZES.items()}
    name = zone["name"]
    for rack in range(1, size["racks"] + 1):
        for number in range(1, size["hosts_per_rack"] + 1):
            yield Host(
                f"{name}-r{rack}-h{number}", name, f"{name}-r{rack}", size["cpu"], size["ram_mb"], size["disk_mb"]
            )


def _networks(document: Mapping[str, Any]) -> tuple[str, ...]:
    names = document.get("networks", list(DEFAULT_NETWORKS))
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadRequest("layout.networks is not a list of names", remedy="write networks: [default]")
    return tuple(dict.fromkeys(names))


def _positive(value: Any, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise BadRequest(f"{field} is {value!r}, not a whole number above 0", remedy=_EXAMPLE)


def _require_known(document: Mapping[str, Any], keys: set[str], field: str) -> None:
    for key in document:
        if key not in keys:
            raise BadRequest(f"{field}.{key} is not known", remedy=f"use {', '.join(sorted(keys))}")
