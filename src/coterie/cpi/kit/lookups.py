"""Things of the cloud that change rarely, looked up by name or id and remembered for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from coterie.cpi.contract import InvalidCall

T = TypeVar("T")
Row = dict[str, Any]
_NAMES_SHOWN = 20


class LookupCache:
    """Lists by a key of the caller's. An empty list is never remembered: what is missing may come any moment."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._known: dict[str, tuple[float, Sequence[Any]]] = {}

    def get(self, key: str, look: Callable[[], Sequence[T]]) -> Sequence[T]:
        """What `look` found within the last `keep_s` seconds, or finds now."""
        at, rows = self._known.get(key, (0.0, ()))
        if not rows or time.monotonic() - at > self._keep_s:
            rows = look()
            self._known[key] = time.monotonic(), rows
        return rows

    def forget(self, key: str) -> None:
        self._known.pop(key, None)


def pick_one(rows: Sequence[Row], wanted: str, what: str, *, field: str = "name", where: str = "") -> Row:
    """The only row with this id or name. `what`: the kind of thing, for errors; `where`: the property that named it."""
    found = [row for row in rows if wanted in (row["id"], row.get(field))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidCall(f"{len(found)} times there is a {what} {wanted!r}", remedy="name it by its id")
    names = ", ".join(sorted(str(row.get(field)) for row in rows)[:_NAMES_SHOWN]) or "none is there"
    remedy = f"set {where} to one of: {names}" if where else f"use one of: {names}"
    raise InvalidCall(f"there is no {what} {wanted!r}", remedy=remedy)
