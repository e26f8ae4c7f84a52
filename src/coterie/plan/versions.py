"""Which of two stemcell versions is newer, as BOSH orders them: `release[-pre][+post]`, numbers as numbers. Pure."""

from __future__ import annotations

import re
from typing import Any

_PART = r"[0-9A-Za-z]+(?:[.-][0-9A-Za-z]+)*"
_SHAPE = re.compile(rf"(?P<release>[0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*)(?:-(?P<pre>{_PART}))?(?:\+(?P<post>{_PART}))?")
_FINAL = (1,)  # no pre-release: after every one that is


def age(version: str) -> tuple[Any, ...]:
    """A key to sort by, oldest first: 1.9 < 1.10-rc.1 < 1.10 < 1.10+build.2. Other shapes come before all, by text."""
    # Old stemcells write 3012_1 for 3012.1.
    shape = _SHAPE.fullmatch(version.replace("_", "."))
    if shape is None:
        return (0, version)
    pre = (0, _parts(shape["pre"])) if shape["pre"] else _FINAL
    return (1, _parts(shape["release"]), pre, _parts(shape["post"] or ""))


def _parts(text: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers come before words, and zeros at the end say nothing: 1.0 is 1."""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"[.-]", text) if part]
    while parts and parts[-1] == (0, 0, ""):
        parts.pop()
    return tuple(parts)
