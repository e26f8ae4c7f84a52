"""Whether nodes that are on several hosts would fit on fewer, by what hosts have free and what nodes take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """What is free, or taken."""

    cpu: float
    ram_mb: float

    def holds(self, other: Room) -> bool:
        return self.cpu >= other.cpu and self.ram_mb >= other.ram_mb

    def without(self, other: Room) -> Room:
        return Room(self.cpu - other.cpu, self.ram_mb - other.ram_mb)


def vacatable(taken: Mapping[str, Sequence[Room | None]], free: Mapping[str, Room | None]) -> list[str] | None:
    """The hosts whose nodes would each time all fit on the others that are in use, found by trying one after the other;
    None: nobody can say."""
    if None in free.values() or any(None in rooms for rooms in taken.values()) or not taken.keys() <= free.keys():
        return None
    emptiest_first = sorted(taken, key=lambda host: (len(taken[host]), host))
    return [host for host in emptiest_first if _fit(taken[host], {n: free[n] for n in taken if n != host})]


def _fit(rooms: Sequence[Room | None], free: Mapping[str, Room | None]) -> bool:
    left = {name: room for name, room in sorted(free.items()) if room}
    for room in sorted((one for one in rooms if one), key=lambda one: (-one.ram_mb, -one.cpu)):
        host = next((name for name in left if left[name].holds(room)), None)
        if host is None:
            return False
        left[host] = left[host].without(room)
    return True
