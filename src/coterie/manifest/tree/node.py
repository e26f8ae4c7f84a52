"""One value of a document and where it is written. Only the shape of the tree; no parsing, no meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Loc = tuple[str | int, ...]
Place = tuple[int, int]
Scalar = str | int | float | bool | None


@dataclass(slots=True)
class Node:
    """`size` counts the values beneath, itself included, each alias as often as it is used; `height` the levels."""

    line: int
    column: int
    value: Scalar | list[Node] | dict[str, Node]
    keys: dict[str, Place] | None = None  # where the keys of a mapping are written
    size: int = 1
    height: int = 0

    @property
    def place(self) -> Place:
        return self.line, self.column

    def child(self, step: str | int) -> Node | None:
        if isinstance(self.value, dict) and isinstance(step, str):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None

    def at(self, loc: Loc) -> Node:
        """The node there, or the deepest one on the way that exists."""
        node = self
        for step in loc:
            below = node.child(step)
            if below is None:
                return node
            node = below
        return node

    def key_place(self, loc: Loc) -> Place:
        """Where the last key of `loc` is written; of a list item, where the item begins."""
        holder = self.at(loc[:-1])
        return (holder.keys or {}).get(str(loc[-1])) or self.at(loc).place

    def plain(self) -> Any:
        """Fresh dicts, lists and scalars, without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value
