"""The metadata that a virtual router serves to a VM, recognised by its address: userdata, id, name, keys.

A VM here is a row, so a client that connects from one of its addresses, all in loopback, counts as the VM.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from coterie.sandbox import networks, records
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.network_rows import is_visible, router_address
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE, Vm

LATEST = "/latest/"


def answer_metadata(datacenter: Datacenter, address: str, what: str) -> bytes | None:
    """The answer to GET /latest/WHAT; None: not known, or no VM has this address, or no router serves it."""
    with datacenter.store.reading() as db:
        found = _at(Tx(db, "", datacenter.clock(), datacenter.ids), address)
        answer = _ANSWERS.get(what.removeprefix("meta-data/"))
        return answer(*found) if found and answer else None


def _at(tx: Tx, address: str) -> tuple[Tx, Vm] | None:
    rows = tx.db.execute(
        "SELECT o.account, o.id, w.id FROM nics n JOIN objects o ON o.seq = n.vm JOIN objects w ON w.seq = n.network "
        "JOIN vms v ON v.object = n.vm WHERE n.ip = ? AND v.host IS NOT NULL",
        (address,),
    ).fetchall()
    if len(rows) != 1:
        return None  # accounts may use the same addresses
    account, vm, network = rows[0]
    own = Tx(tx.db, account, tx.now, tx.ids)
    served = records.fetch(own, networks.SHAPE, network)
    if not is_visible(own, served) or router_address(own, served) is None:
        return None
    return own, records.fetch(own, SHAPE, vm)


def _userdata(tx: Tx, vm: Vm) -> bytes:
    row = tx.db.execute("SELECT user_data FROM vms WHERE object = ?", (vm.seq,)).fetchone()
    return base64.b64decode(row[0])


def _key(tx: Tx, vm: Vm) -> bytes:
    pair = shelf.doc_of(tx.db, outer_id(vm.id)).get("keypair")
    found = next(shelf.every(tx.db, "keypair", tx.account, pair), None) if pair else None
    return str(found.doc["public"]).encode() if found else b""


_ANSWERS: dict[str, Callable[[Tx, Vm], bytes]] = {
    "user-data": _userdata,
    "vm-id": lambda tx, vm: outer_id(vm.id).encode(),
    "instance-id": lambda tx, vm: outer_id(vm.id).encode(),
    "local-hostname": lambda tx, vm: vm.name.encode(),
    "public-keys": _key,
}
