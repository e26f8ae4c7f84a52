"""Field paths as people write them: `instance_groups[broker].networks[0].static_ips`."""

from __future__ import annotations

import re

from coterie.manifest.tree.node import Loc, Node

_STEP = re.compile(r"\.?(?P<key>[A-Za-z_][\w-]*)|\['(?P<quoted>[^']*)'\]|\[(?P<item>[^\]]+)\]")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NAME = re.compile(r"(?!\d+\Z)[A-Za-z0-9_.-]+")


class Fields:
    """Turns places into field paths and back. Items of top-level lists go by their own name, all others by number."""

    def __init__(self, root: Node | None) -> None:
        self._root = root
        self._names: dict[str, dict[str, int]] = {}

    def words(self, loc: Loc) -> str:
        found = ""
        for depth, step in enumerate(loc):
            if isinstance(step, int):
                found += f"[{self._item(loc[0], step) if depth == 1 else step}]"
            elif _WORD.fullmatch(step):
                found += f".{step}" if found else step
            else:
                found += f"['{step}']"
        return found

    def loc(self, path: str) -> Loc:
        """The place that a path names; steps that make no sense are kept, and then lead nowhere."""
        steps: list[str | int] = []
        for step in _STEP.finditer(path):
            if step["item"] is None:
                steps.append(step["key"] if step["key"] is not None else step["quoted"])
            elif step["item"].isdecimal():
                steps.append(int(step["item"]))
            else:
                names = self._of(steps[0]) if len(steps) == 1 else {}
                steps.append(names.get(step["item"], step["item"]))
        return tuple(steps)

    def _item(self, section: str | int, index: int) -> str | int:
        item = self._root.at((section, index)) if self._root else None
        name = _own_name(item) if item else None
        return name if name is not None and self._of(section).get(name) == index else index

    def _of(self, section: str | int) -> dict[str, int]:
        """Name → number, for the items of one top-level list; the first of two with one name has it."""
        if self._root is None or not isinstance(section, str):
            return {}
        if section not in self._names:
            self._names[section] = _number_by_name(self._root.child(section))
        return self._names[section]


def _number_by_name(items: Node | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for index, item in enumerate(items.value if items and isinstance(items.value, list) else []):
        name = _own_name(item)
        if name is not None:
            found.setdefault(name, index)
    return found


def _own_name(item: Node) -> str | None:
    for key in ("alias", "name"):
        held = item.child(key)
        if held is not None and isinstance(held.value, str) and _NAME.fullmatch(held.value):
            return held.value
    return None
