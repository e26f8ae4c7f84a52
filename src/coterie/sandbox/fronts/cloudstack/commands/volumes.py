"""Volumes: made, listed, deleted. Until it was attached once, a volume is only a promise: Allocated, in no pool."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox import disks, records
from coterie.sandbox.api import work_of
from coterie.sandbox.disks import SHAPE, Disk
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.furnish import GIB
from coterie.sandbox.fronts.cloudstack.listing import (
    Row,
    filter_rows,
    records_of,
    rows_of_accounts,
    tag_rows,
    time_words,
)
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.twist import Tx

_LARGEST_GIB = 1024


def _begin(call: Call) -> str:
    call.needs("diskofferingid")
    call.needs("zoneid")
    zone = places.find_zone(call.tx, call.params["zoneid"])
    name = str(call.get("name") or f"VOL-{call.tx.ids.uuid()}")
    return add_volume(call, name, call.params["diskofferingid"], call.get("size"), zone)


@job("createVolume", begin=_begin)
def create(call: Call, wanted: str) -> Row:
    return volume_row(call.tx, fetch(call.tx, wanted))


@answers("deleteVolume", writes=True)
def delete(call: Call) -> None:
    wanted = call.params["id"]
    found = fetch(call.tx, wanted)
    if found.vm:
        raise refuse("Please specify a volume that is not attached to any VM.")
    work_of(disks.delete_disk)(call.tx, found.id)
    shelf.bury(call.tx, wanted)


@answers("listVolumes")
def list_volumes(call: Call) -> Iterator[Row]:
    def rows(tx: Tx) -> Iterator[Row]:
        yield from (volume_row(tx, one) for one in _some(call, tx))
        if call.get("type", "ROOT").upper() == "ROOT":
            yield from _roots(tx)

    return filter_rows(
        call, rows_of_accounts(call, rows), "id", "name", "zoneid", "type", "virtualmachineid", "state", "storageid"
    )


def add_volume(call: Call, name: str, offering: str, size: int | None, zone: str) -> str:
    """A volume of this offering: its size comes from the offering, or from the caller where the offering has none."""
    offered = shelf.get(call.tx.db, "diskoffering", offering)
    if offered is None:
        raise refuse(f"Unable to find disk offering {offering}")
    fixed = offered.doc["gib"]
    if fixed is None and size is None:
        raise refuse("This disk offering requires a custom size specified")
    if fixed is not None and size is not None:
        raise refuse("This disk offering does not allow custom size")
    gib = int(fixed or size or 0)
    if not 1 <= gib <= _LARGEST_GIB:
        raise refuse(f"Invalid size for custom disk offering: {gib}; at least 1 and at most {_LARGEST_GIB} GB")
    made = work_of(disks.create_disk)(call.tx, name=name, size_mb=gib * 1024, type=offered.name, zone=zone)
    doc = {"offering": offered.id, "storage": offered.doc["storage"]}
    shelf.put(call.tx, "volume", name, doc, outer_id(made.id))
    return outer_id(made.id)


def fetch(tx: Tx, wanted: str) -> Disk:
    return records.fetch(tx, SHAPE, inner_id("volume", wanted))


def volume_row(tx: Tx, disk: Disk) -> Row:
    wanted = outer_id(disk.id)
    doc = shelf.doc_of(tx.db, wanted)
    pool = doc.get("host") or disk.zone
    return {
        "id": wanted,
        "name": disk.name,
        "type": "DATADISK",
        "state": "Ready" if doc.get("used") else "Allocated",
        "size": disk.size_mb * 2**20,
        "created": time_words(disk.created_at),
        "diskofferingid": doc.get("offering"),
        "diskofferingname": disk.type,
        "storagetype": doc.get("storage", "shared"),
        "storageid": places.id_of("pool", str(pool)) if doc.get("used") else None,
        "virtualmachineid": outer_id(disk.vm) if disk.vm else None,
        "deviceid": doc.get("deviceid") if disk.vm else None,
        "hypervisor": places.HYPERVISOR,
        "tags": tag_rows(disk, "Volume"),
        **places.owner_words(disk.account),
        **places.zone_words(disk.zone),
    }


def _some(call: Call, tx: Tx) -> Iterator[Disk]:
    """One volume is looked up, many are listed: the answer is the same, the work is not."""
    if "id" not in call.params:
        return records_of(tx, SHAPE, call.get("name"))
    known = tx.db.execute(
        "SELECT 1 FROM objects WHERE id = ? AND account = ?", (inner_id("volume", call.params["id"]), tx.account)
    ).fetchone()
    return iter([fetch(tx, call.params["id"])] if known else [])


def _roots(tx: Tx) -> Iterator[Row]:
    for thing in shelf.every(tx.db, "volume", tx.account):
        if "root_of" not in thing.doc:
            continue
        vm = tx.db.execute(
            "SELECT v.zone FROM vms v JOIN objects o ON o.seq = v.object WHERE o.id = ?",
            (inner_id("vm", thing.doc["root_of"]),),
        ).fetchone()
        if vm:
            yield {
                "id": thing.id,
                "name": thing.name,
                "type": "ROOT",
                "state": "Ready",
                "size": thing.doc["gib"] * GIB,
                "created": time_words(thing.created_at),
                "virtualmachineid": thing.doc["root_of"],
                "deviceid": 0,
                "storagetype": "shared",
                "tags": [],
                **places.owner_words(thing.account),
                **places.zone_words(vm[0]),
            }
