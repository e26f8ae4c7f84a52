"""The order of nodes for people: by group, then by number. Pure."""

from __future__ import annotations


def by_index(node: str) -> tuple[str, int]:
    """A key to sort names like broker/2 by: before broker/10."""
    group, _, index = node.rpartition("/")
    return (group, int(index)) if index.isdecimal() else (node, -1)
