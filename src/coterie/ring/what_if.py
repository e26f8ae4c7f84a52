"""What a change of the fleet would move: pure counting over the nodes there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from coterie.ring.owner import Fleet


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, and what chooses its conductor."""

    uuid: str
    name: str
    group: str
    driver: str


def owner_name(fleet: Fleet, node: Placed) -> str | None:
    """None: no conductor could run its work."""
    found = fleet.table(node.group, node.driver).owner(node.uuid)
    return found.name if found else None


def moves(before: Fleet, after: Fleet, nodes: Iterable[Placed]) -> Counter[tuple[str | None, str | None]]:
    """How many nodes go from which conductor to which; those that stay are not counted."""
    found: Counter[tuple[str | None, str | None]] = Counter()
    for node in nodes:
        pair = (owner_name(before, node), owner_name(after, node))
        if pair[0] != pair[1]:
            found[pair] += 1
    return found
