"""A list or mapping that is still being read: where the next value goes. Decides nothing about limits."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.manifest.tree.node import Node, Place


@dataclass(slots=True)
class Frame:
    node: Node
    anchor: str | None
    key: str | None = None
    merges: bool = False  # it has a merge key; in quotes, `<<` is a key like any other
    discard: bool = False  # the coming value belongs to a key that was there already

    @property
    def wants_key(self) -> bool:
        return isinstance(self.node.value, dict) and self.key is None

    def here(self) -> str | int:
        """The step from this node to the value that was put last."""
        return len(self.node.value) - 1 if isinstance(self.node.value, list) else self.key or ""

    def coming(self) -> tuple[str | int, ...]:
        """The step to the value that would be put next; none where a key is still to come."""
        if isinstance(self.node.value, list):
            return (len(self.node.value),)
        return () if self.key is None else (self.key,)

    def name(self, key: str, place: Place) -> Place | None:
        """Begin the value of `key`; the place of an earlier one with that name, or None."""
        if self.node.keys is None:
            self.node.keys = {}
        first = self.node.keys.setdefault(key, place)
        self.key, self.discard = key, first is not place
        return first if self.discard else None

    def put(self, node: Node) -> None:
        if isinstance(self.node.value, list):
            self.node.value.append(node)
        elif isinstance(self.node.value, dict) and self.key is not None and not self.discard:
            self.node.value[self.key] = node

    def finish(self) -> Node:
        """The node, with what is now known about all that lies beneath it."""
        value = self.node.value
        below = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        self.node.size = 1 + sum(child.size for child in below)
        self.node.height = 1 + max((child.height for child in below), default=0)
        return self.node
