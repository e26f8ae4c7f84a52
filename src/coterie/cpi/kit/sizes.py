"""What a VM requires, and the smallest of a cloud's sizes that fits; never the largest in its stead. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coterie.cpi.contract import InvalidCall, Json, NoPlacement
from coterie.slotted import dataclass

_REQUIRED = ("cpu", "ram", "ephemeral_disk_size")


@dataclass(frozen=True, slots=True)
class Requirements:
    cpu: int
    ram_mb: int
    disk_mb: int


@dataclass(frozen=True, slots=True)
class Size:
    name: str
    cpu: int
    ram_mb: int


def read_requirements(given: Mapping[str, int]) -> Requirements:
    for key in _REQUIRED:
        if not isinstance(given.get(key), int):
            raise InvalidCall(f"requirements.{key} is missing or no number", remedy="give cpu, ram and disk size")
    return Requirements(*(int(given[key]) for key in _REQUIRED))


def smallest_fit(sizes: Iterable[Size], wanted: Requirements) -> Size | None:
    fitting = [size for size in sizes if fits(size, wanted)]
    return min(fitting, key=lambda size: (excess(size, wanted), size.name), default=None)


def instance_type_for(requirements: Mapping[str, int], sizes: Collection[Size], noun: str, where: str) -> Json:
    """cloud_properties of a cloud that makes ephemeral disks of any size."""
    found, wanted = require_fit(requirements, sizes, noun, where)
    disk = {"ephemeral_disk": {"size": wanted.disk_mb}} if wanted.disk_mb else {}
    return {"instance_type": found.name, **disk}


def require_fit(
    requirements: Mapping[str, int], sizes: Collection[Size], noun: str, where: str
) -> tuple[Size, Requirements]:
    """The smallest size that fits, and what was required. `noun`: what the cloud calls a size."""
    wanted = read_requirements(requirements)
    found = smallest_fit(sizes, wanted)
    if found is None:
        raise NoPlacement(
            f"no {noun} has {wanted.cpu} cpu and {wanted.ram_mb} MiB",
            why=f"none of the {len(sizes)} of {where}",
            remedy="ask for less, or use another region",
        )
    return found, wanted


def fits(size: Size, wanted: Requirements) -> bool:
    return size.cpu >= wanted.cpu and size.ram_mb >= wanted.ram_mb


def excess(size: Size, wanted: Requirements) -> float:
    """How many times too large, in both respects: one that is huge in cpu is not small because it has little memory."""
    return size.cpu / max(wanted.cpu, 1) + size.ram_mb / max(wanted.ram_mb, 1)
