"""Destroying, expunging and recovering VMs: destroyed is not gone."""

from __future__ import annotations

from coterie.sandbox import disks
from coterie.sandbox.api import work_of
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.commands.power import fetch, stop
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.expunge import expunge, find_vm
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.machine_rows import machine_row, state_of
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.vm_shape import Vm


def _begin(call: Call) -> str:
    if call.get("expunge"):
        _require_right(call)
    return str(call.params["id"])


@job("destroyVirtualMachine", begin=_begin)
def destroy(call: Call, wanted: str) -> Row:
    """Stopped, without data disks, and waiting to be expunged; or expunged at once for callers that may do so."""
    found = find_vm(call.tx, wanted)
    if found is None:
        raise refuse(f"unable to find a virtual machine with id {wanted}")
    stop(call.tx, found)
    _let_go(call, found)
    if shelf.doc_of(call.tx.db, wanted).get("state") != "Destroyed":
        shelf.note(call.tx, wanted, state="Destroyed", destroyed_at=call.tx.now)
    row = machine_row(call.tx, fetch(call.tx, wanted))
    if call.get("expunge"):
        expunge(call.tx, wanted)
        row["state"] = "Expunging"
    return row


@job("expungeVirtualMachine", begin=lambda call: _require_allowed(call))
def expunge_now(call: Call, wanted: str) -> None:
    _require_destroyed(call, wanted)
    expunge(call.tx, wanted)


@answers("recoverVirtualMachine", writes=True)
def recover(call: Call) -> Row:
    wanted = _require_allowed(call)
    _require_destroyed(call, wanted)
    shelf.note(call.tx, wanted, state=None, destroyed_at=None)
    return machine_row(call.tx, fetch(call.tx, wanted))


def _require_allowed(call: Call) -> str:
    _require_right(call)
    return str(call.params["id"])


def _require_right(call: Call) -> None:
    if not (call.caller.admin or call.flag("allow.user.expunge.recover.vm")):
        raise ApiError(
            PERMISSION,
            "Parameter expunge can be passed by Admin only. Or when the allow.user.expunge.recover.vm key is set.",
        )


def _require_destroyed(call: Call, wanted: str) -> None:
    found = find_vm(call.tx, wanted)
    if found is None:
        raise refuse(f"unable to find a virtual machine with id {wanted}")
    if state_of(found, shelf.doc_of(call.tx.db, wanted)) not in ("Destroyed", "Error"):
        raise refuse(f"VM {wanted} is not destroyed")


def _let_go(call: Call, vm: Vm) -> None:
    """All data disks are detached; only those that the call names are deleted with the VM."""
    doomed = set(call.get("volumeids") or ())
    for disk in vm.disks:
        wanted = outer_id(disk)
        work_of(disks.detach_disk)(call.tx, disk, vm.id)
        shelf.note(call.tx, wanted, deviceid=None)
        if wanted in doomed:
            work_of(disks.delete_disk)(call.tx, disk)
            shelf.bury(call.tx, wanted)
            doomed.discard(wanted)
    for wanted in doomed:
        try:
            work_of(disks.get_disk)(call.tx, inner_id("volume", wanted))
        except NoSuch:
            continue
        raise refuse(f"volume {wanted} is not attached to VM {outer_id(vm.id)}")
