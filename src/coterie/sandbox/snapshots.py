"""Snapshots: copies of a disk at one moment, independent of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.sandbox import disks, pages, quotas, records
from coterie.sandbox.api import api
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot(Record):
    disk: str
    size_mb: int


SHAPE = Shape(
    kind="snapshot",
    prefix="snap",
    table="snapshots",
    columns=("k.disk, k.size_mb",),
    value=Snapshot,
)


@api("create_snapshot")
def create_snapshot(
    tx: Tx,
    disk: str,
    *,
    name: str,
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> Snapshot:
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    source = records.fetch(tx, disks.SHAPE, disk)
    quotas.charge(tx, {"snapshots": 1})
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    tx.db.execute("INSERT INTO snapshots VALUES (?,?,?)", (seq, disk, source.size_mb))
    return records.fetch(tx, SHAPE, made)


@api("get_snapshot", writes=False)
def get_snapshot(tx: Tx, wanted: str) -> Snapshot:
    return records.fetch(tx, SHAPE, wanted)


@api("list_snapshots", writes=False)
def list_snapshots(
    tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT
) -> Page[Snapshot]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("delete_snapshot")
def delete_snapshot(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    quotas.charge(tx, {"snapshots": -1})
    records.remove(tx, SHAPE, found.seq)
