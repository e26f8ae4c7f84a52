"""What the lists of all nouns share: rows sorted out by parameters, tags and keywords."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.places import owner_words
from coterie.sandbox.pages import PAGE_LIMIT, Filter, page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx

T = TypeVar("T", bound=Record)
Row = dict[str, Any]


def time_words(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")


def records_of(tx: Tx, shape: Shape[T], name: str | None = None) -> Iterator[T]:
    """Everything of a kind in one account, page by page; what is still invisible is left out."""
    after: str | None = None
    while True:
        found = page(tx, shape, Filter(name=name), after, PAGE_LIMIT)
        yield from found.items
        after = found.next
        if after is None:
            return


def filter_rows(call: Call, rows: Iterable[Row], *fields: str, like: tuple[str, ...] = ("name",)) -> Iterator[Row]:
    """The rows whose `fields` are what the parameters of those names say; `like`: where a keyword is looked for."""
    wanted = {name: call.params[name] for name in fields if name in call.params}
    ids = set(call.get("ids") or ())
    word = str(call.get("keyword") or "").lower()
    for row in rows:
        if ids and row["id"] not in ids:
            continue
        if any(not _equal(row.get(name), value) for name, value in wanted.items()):
            continue
        if word and not any(word in str(row.get(name) or "").lower() for name in like):
            continue
        if _has_tags(row, call.get("tags") or ()):
            yield row


def tag_rows(record: Record, kind: str) -> list[Row]:
    return [tag_row(record, kind, key, value) for key, value in record.tags.items()]


def tag_row(record: Record, kind: str, key: str, value: str) -> Row:
    return {
        "key": key,
        "value": value,
        "resourceid": outer_id(record.id),
        "resourcetype": kind,
        **owner_words(record.account),
    }


def rows_of_accounts(call: Call, rows_in: Callable[[Tx], Iterable[Row]]) -> Iterator[Row]:
    """Rows of every account that the list covers."""
    for tx in call.scopes():
        yield from rows_in(tx)


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, str) and isinstance(wanted, str):
        return found.lower() == wanted.lower()
    return bool(found == wanted)


def _has_tags(row: Mapping[str, Any], wanted: Iterable[Mapping[str, str]]) -> bool:
    has = {tag["key"]: tag["value"] for tag in row.get("tags") or ()}
    return all(has.get(str(one.get("key"))) == one.get("value") for one in wanted)
