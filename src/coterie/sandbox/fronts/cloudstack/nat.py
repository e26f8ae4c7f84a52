"""Public addresses and the VMs that they are mapped to. Rows only; the commands are in `commands.addresses`."""

from __future__ import annotations

from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.shelf import Thing
from coterie.sandbox.twist import Tx


def addresses_of_vm(tx: Tx, vm: str) -> list[Thing]:
    return [thing for thing in shelf.every(tx.db, "publicip") if thing.doc.get("vm") == vm]


def unmap_vm(tx: Tx, vm: str) -> None:
    for thing in addresses_of_vm(tx, vm):
        shelf.note(tx, thing.id, vm=None, vm_ip=None)


def addresses_of(tx: Tx, network: str) -> list[Thing]:
    return [thing for thing in shelf.every(tx.db, "publicip") if thing.doc.get("network") == network]
