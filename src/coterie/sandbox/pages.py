"""Lists: one page at a time, by age, sorted out at the server by tag or name. Objects still invisible are left out."""

from __future__ import annotations

from typing import Any, Generic

from coterie.sandbox import tags as tagging
from coterie.sandbox.errors import BadRequest
from coterie.sandbox.records import Shape, T, build, select
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

PAGE_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Filter:
    """What the server sorts out itself: one tag with its value, or an exact name."""

    tag: tuple[str, str] | None = None
    name: str | None = None


EVERYTHING = Filter()


def page(tx: Tx, shape: Shape[T], only: Filter, after: str | None, limit: int) -> Page[T]:
    """One page by age; `after` is the `next` of the page before."""
    size = max(1, min(limit, PAGE_LIMIT))
    source, where, values = _where(tx, shape, only)
    rows = tx.db.execute(
        f"{select(shape, source)} WHERE {where} AND o.visible_at <= ? ORDER BY {_order(only)} LIMIT ?",
        (*values, _position(after), tx.now, size + 1),
    ).fetchall()
    items = tuple(build(tx, shape, row) for row in rows[:size])
    return Page(items, str(items[-1].seq) if len(rows) > size else None)


def _where(tx: Tx, shape: Shape[Any], only: Filter) -> tuple[str, str, tuple[Any, ...]]:
    """Where to read from; the last `?` of the condition is the place to go on from."""
    name, named = ("", ()) if only.name is None else ("o.name = ? AND ", (only.name,))
    if only.tag is None:
        source = "objects o NOT INDEXED" if only.name is None else "objects o"
        return source, f"{name}o.account = ? AND o.kind = ? AND o.seq > ?", (*named, tx.account, shape.kind)
    # CROSS JOIN pins the order: the tag index is walked, not every object of the account
    source = "tags f CROSS JOIN objects o ON o.seq = f.object"
    where = f"{name}f.scope = ? AND f.key = ? AND f.value = ? AND f.object > ?"
    return source, where, (*named, tagging.scope(tx.account, shape.kind), *only.tag)


def _order(only: Filter) -> str:
    return "o.seq" if only.tag is None else "f.object"


def _position(after: str | None) -> int:
    try:
        return int(after or 0)
    except ValueError:
        raise BadRequest(f"{after!r} is no page of a list", remedy="use the `next` of the page before") from None
