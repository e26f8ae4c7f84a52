"""Pages by keyset: a cursor holds the last row's key, so rows that come or go never shift a page."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import dropwhile
from typing import Any, NamedTuple

import sqlalchemy as sa

from coterie.errors import UsageError
from coterie.ledger.store import Tx

Row = dict[str, Any]
Key = sa.ColumnElement[Any]
_BIGGEST = 2**63 - 1


class Page(NamedTuple):
    items: list[Row]
    next: str | None


class Slice(NamedTuple):
    """The part of a list that a caller requests."""

    limit: int = 100
    cursor: str | None = None


def fetch(
    tx: Tx,
    query: sa.Select[Any],
    keys: Sequence[Key],
    part: Slice,
    *,
    newest_first: bool = False,
    filters: Mapping[str, Any] | None = None,
) -> Page:
    """One page of `query` ordered by `keys`, which must be unique together and never null. `filters`: equalities that
    the query has by now, by column. Keys among them at the beginning are not compared with the cursor: SQLite would
    use its index for the equality alone, and read every page from the first row on."""
    labelled = [key.label(f"_key{n}") for n, key in enumerate(keys)]
    query = query.add_columns(*labelled)
    if part.cursor is not None:
        given = zip(keys, _opened(part.cursor, keys), strict=True)
        compared = list(dropwhile(lambda one: (filters or {}).get(one[0].key or "") is not None, given))
        last = sa.tuple_(*[sa.literal(value, key.type) for key, value in compared])
        after = sa.tuple_(*[key for key, _ in compared])
        query = query.where(after < last if newest_first else after > last)
    query = query.order_by(*[key.desc() if newest_first else key.asc() for key in keys]).limit(part.limit + 1)
    rows = [dict(row._mapping) for row in tx.execute(query)]
    ends = [[row.pop(label.name) for label in labelled] for row in rows]
    if len(rows) <= part.limit:
        return Page(rows, None)
    return Page(rows[: part.limit], _sealed(ends[part.limit - 1]))


def matching(query: sa.Select[Any], wanted: Mapping[sa.ColumnElement[Any], Any]) -> sa.Select[Any]:
    """`query` with one equality per filter that was given."""
    return query.where(*[column == value for column, value in wanted.items() if value is not None])


def when(seconds: float | None) -> str | None:
    """A time as the API writes it: RFC 3339, UTC, milliseconds."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sealed(values: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _opened(cursor: str, keys: Sequence[Key]) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise _bad_cursor() from error
    if not isinstance(values, list) or len(values) != len(keys):
        raise _bad_cursor()
    if not all(_fits(value, key) for value, key in zip(values, keys, strict=True)):
        raise _bad_cursor()
    return values


def _fits(value: Any, key: Key) -> bool:
    if type(value) is not key.type.python_type:
        return False
    if isinstance(value, str):
        return "\x00" not in value and value.isprintable()
    return not isinstance(value, int) or abs(value) <= _BIGGEST


def _bad_cursor() -> UsageError:
    return UsageError("the cursor is not one that this list gave", remedy="use `next` of the page before, unchanged")
