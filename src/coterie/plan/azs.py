"""Which az each node of a group is in: those that are placed stay, new ones go where the fewest are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def choose_azs(instances: int, azs: Sequence[str], placed: Mapping[int, str], fixed: Mapping[int, str]) -> list[str]:
    """The az of every index. `placed`: where nodes are now; `fixed`: where a static address forces them to be."""
    counts = dict.fromkeys(azs, 0)
    chosen: dict[int, str] = {}
    for index in range(instances):
        az = fixed.get(index) or placed.get(index)
        if az in counts:
            chosen[index] = az
            counts[az] += 1
    order = {az: n for n, az in enumerate(azs)}
    for index in range(instances):
        if index not in chosen:
            az = min(azs, key=lambda name: (counts[name], order[name]))
            chosen[index] = az
            counts[az] += 1
    return [chosen[index] for index in range(instances)]
