"""Snapshots of volumes that have data: one that was never attached has none."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox import records, snapshots
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.commands.volumes import fetch
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import (
    Row,
    filter_rows,
    records_of,
    rows_of_accounts,
    tag_rows,
    time_words,
)
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.snapshots import SHAPE, Snapshot


def _begin(call: Call) -> str:
    disk = fetch(call.tx, call.params["volumeid"])
    if not shelf.doc_of(call.tx.db, outer_id(disk.id)).get("used"):
        raise refuse(f"VolumeId: {outer_id(disk.id)} is not in Ready state but Allocated. Cannot take snapshot.")
    name = str(call.get("name") or f"{disk.name}_{call.tx.now:.0f}")
    made = work_of(snapshots.create_snapshot)(call.tx, disk.id, name=name)
    shelf.put(call.tx, "snapshot", name, {"zone": disk.zone}, outer_id(made.id))
    return outer_id(made.id)


@job("createSnapshot", begin=_begin)
def create(call: Call, wanted: str) -> Row:
    return _row(records.fetch(call.tx, SHAPE, inner_id("snapshot", wanted)), call)


@job("deleteSnapshot")
def delete(call: Call, wanted: str) -> None:
    work_of(snapshots.delete_snapshot)(call.tx, inner_id("snapshot", wanted))
    shelf.bury(call.tx, wanted)


@answers("listSnapshots")
def list_snapshots(call: Call) -> Iterator[Row]:
    rows = rows_of_accounts(call, lambda tx: (_row(one, call) for one in records_of(tx, SHAPE, call.get("name"))))
    return filter_rows(call, rows, "id", "name", "volumeid", "zoneid")


def _row(snapshot: Snapshot, call: Call) -> Row:
    wanted = outer_id(snapshot.id)
    return {
        "id": wanted,
        "name": snapshot.name,
        "volumeid": outer_id(snapshot.disk),
        "volumetype": "DATADISK",
        "snapshottype": "MANUAL",
        "intervaltype": "MANUAL",
        "state": "BackedUp",
        "physicalsize": snapshot.size_mb * 2**20,
        "created": time_words(snapshot.created_at),
        "tags": tag_rows(snapshot, "Snapshot"),
        **places.owner_words(snapshot.account),
        "zoneid": places.id_of("zone", str(shelf.doc_of(call.tx.db, wanted).get("zone"))),
    }
