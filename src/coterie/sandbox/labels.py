"""Labels: named things that hold nothing but tags, as the tag objects of clouds whose groups cannot be empty."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.sandbox import pages, records
from coterie.sandbox.api import api
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx

SHAPE = Shape(kind="label", prefix="lbl", table=None, columns=(), value=Record)


@api("create_label")
def create_label(tx: Tx, *, name: str, tags: Mapping[str, str], client_token: str | None = None) -> Record:
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    _, made = records.insert(tx, SHAPE, name, tags, client_token)
    return records.fetch(tx, SHAPE, made)


@api("list_labels", writes=False)
def list_labels(tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT) -> Page[Record]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("delete_label")
def delete_label(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    records.remove(tx, SHAPE, found.seq)
