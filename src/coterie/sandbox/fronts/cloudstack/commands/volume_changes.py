"""Attaching, detaching, growing and renaming volumes. One on local storage stays on the host of its first VM."""

from __future__ import annotations

from coterie.sandbox import disks, records
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import job
from coterie.sandbox.fronts.cloudstack.commands.volumes import fetch, volume_row
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.machine_rows import state_of
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, ApiError, refuse
from coterie.sandbox.vm_shape import SHAPE as VM
from coterie.sandbox.vm_shape import Vm

_CD_ROM = 3
_MOST_DEVICES = 16


@job("attachVolume")
def attach(call: Call, wanted: str) -> Row:
    tx = call.tx
    found = fetch(tx, wanted)
    vm = records.fetch(tx, VM, inner_id("vm", call.params["virtualmachineid"]))
    if found.vm:
        raise refuse("Please specify a volume that is not attached to any VM.")
    if state_of(vm, shelf.doc_of(tx.db, outer_id(vm.id))) not in ("Running", "Stopped"):
        raise refuse("Please specify a VM that is either running or stopped.")
    pinned = _pinned_host(call, wanted, vm)
    device = _device(call, vm)
    work_of(disks.attach_disk)(tx, found.id, vm.id)
    shelf.note(tx, wanted, deviceid=device, used=True, host=pinned)
    return volume_row(tx, fetch(tx, wanted))


@job("detachVolume")
def detach(call: Call, wanted: str) -> Row:
    found = fetch(call.tx, wanted)
    if found.vm is None:
        raise refuse("The specified volume is not attached to a VM.")
    work_of(disks.detach_disk)(call.tx, found.id, found.vm)
    shelf.note(call.tx, wanted, deviceid=None)
    return volume_row(call.tx, fetch(call.tx, wanted))


@job("resizeVolume")
def resize(call: Call, wanted: str) -> Row:
    found = fetch(call.tx, wanted)
    offered = shelf.get(call.tx.db, "diskoffering", call.get("diskofferingid") or _offering(call, wanted))
    gib = (offered.doc["gib"] if offered else None) or call.get("size")
    if gib is None:
        raise refuse("The volume's offering is customized: a size is needed")
    if offered and offered.doc["gib"] is None and gib * 1024 < found.size_mb and not call.get("shrinkok"):
        raise refuse("Going from existing size to a smaller one would shrink the volume: shrinkok is needed")
    if found.vm:
        raise refuse("this simulation resizes detached volumes only")
    work_of(disks.change_disk)(call.tx, found.id, size_mb=gib * 1024, type=offered.name if offered else None)
    if offered:
        shelf.note(call.tx, wanted, offering=offered.id)
    return volume_row(call.tx, fetch(call.tx, wanted))


@job("updateVolume")
def update(call: Call, wanted: str) -> Row:
    found = fetch(call.tx, wanted)
    if "name" in call.params:
        call.tx.db.execute("UPDATE objects SET name = ? WHERE seq = ?", (call.params["name"], found.seq))
        shelf.rename(call.tx, wanted, call.params["name"])
    return volume_row(call.tx, fetch(call.tx, wanted))


def _offering(call: Call, wanted: str) -> str:
    return str(shelf.doc_of(call.tx.db, wanted).get("offering"))


def _pinned_host(call: Call, wanted: str, vm: Vm) -> str | None:
    doc = shelf.doc_of(call.tx.db, wanted)
    if doc.get("storage") != "local":
        return None
    if doc.get("host") and doc["host"] != vm.host:
        raise ApiError(INTERNAL, f"volume {wanted} is on local storage of another host than VM {outer_id(vm.id)}")
    return vm.host


def _device(call: Call, vm: Vm) -> int:
    """0 is the root disk, 3 the CD-ROM."""
    taken = {0, _CD_ROM, *(shelf.doc_of(call.tx.db, outer_id(disk)).get("deviceid") for disk in vm.disks)}
    arguments = call.get("deviceid")
    if arguments is not None and arguments in taken:
        raise refuse(f"deviceId {arguments} is used by VM {outer_id(vm.id)}")
    for number in range(1, _MOST_DEVICES) if arguments is None else [arguments]:
        if number not in taken:
            return int(number)
    raise refuse(f"The specified VM already has the maximum number of data disks: {_MOST_DEVICES - 2}")
