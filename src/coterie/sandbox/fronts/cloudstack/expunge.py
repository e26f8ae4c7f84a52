"""The end of a VM: only here are its address, host name, cards and memberships given back."""

from __future__ import annotations

from dataclasses import replace

from coterie.sandbox import records, vm_shape, vms
from coterie.sandbox.api import work_of
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fronts.cloudstack import configuration, shelf
from coterie.sandbox.fronts.cloudstack.entities import inner_id
from coterie.sandbox.fronts.cloudstack.nat import unmap_vm
from coterie.sandbox.twist import Tx


def expunge(tx: Tx, wanted: str) -> None:
    try:
        work_of(vms.delete_vm)(tx, inner_id("vm", wanted))
    except NoSuch:
        return
    unmap_vm(tx, wanted)
    shelf.bury(tx, wanted)
    shelf.bury(tx, str(shelf.doc_of(tx.db, wanted).get("root")))


def all_due(tx: Tx) -> None:
    """Expunge every VM that was destroyed longer ago than the settings say."""
    oldest = tx.now - configuration.number(tx.db, "expunge.delay")
    for thing in list(shelf.every(tx.db, "vm")):
        if thing.doc.get("destroyed_at", tx.now + 1) <= oldest:
            expunge(replace(tx, account=thing.account), thing.id)


def find_vm(tx: Tx, wanted: str) -> vm_shape.Vm | None:
    try:
        return records.fetch(tx, vm_shape.SHAPE, inner_id("vm", wanted))
    except NoSuch:
        return None
