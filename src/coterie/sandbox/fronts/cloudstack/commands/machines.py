"""Deploying VMs. A deploy has two phases: the VM is made with its addresses in the request, and started by
the job; one that cannot be started stays, in state Error, with everything it holds."""

from __future__ import annotations

import base64
import binascii
import re

from coterie.sandbox import disks, membership, records, vms
from coterie.sandbox.api import work_of
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.cloudstack import configuration, places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import job
from coterie.sandbox.fronts.cloudstack.commands.power import start
from coterie.sandbox.fronts.cloudstack.commands.volumes import add_volume
from coterie.sandbox.fronts.cloudstack.deploy_request import groups, nics, offering, security_groups, size_of
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.machine_rows import machine_row
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.fronts.cloudstack.template_rows import usable_in
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE, Vm

_HOST_NAME = re.compile(r"^[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$")
_GET_USERDATA = 4096  # of a POST, the definition tells the limit


def _begin(call: Call) -> str:
    tx = call.tx
    zone = places.find_zone(tx, call.params["zoneid"])
    template = _template(call, zone)
    offered, size = offering(call, zone)
    requested = nics(call, zone)
    name = _name(call, [one.network for one in requested])
    _check_userdata(call)
    _check_host(call)
    made = work_of(vms.create_vm)(
        tx,
        name=name,
        size=Demand(size.cpu, size.ram_mb, size.disk_mb, zone),
        image=inner_id("template", template),
        shared_image=True,
        nics=requested,
        security_groups=security_groups(call, zone),
        user_data=call.get("userdata") or "",
        start=False,
    )
    for group in groups(call):
        membership.join(tx, group, made.seq)
    _remember(call, made, offered)
    _data_disk(call, made, zone)
    return outer_id(made.id)


def _on_failure(call: Call, wanted: str) -> None:
    shelf.note(call.tx, wanted, state="Error")


@job("deployVirtualMachine", begin=_begin, broken=_on_failure)
def deploy(call: Call, wanted: str) -> Row:
    shelf.note(call.tx, wanted, state=None)
    if call.get("startvm", True):
        host = places.find_host(call.tx, call.params["hostid"]) if "hostid" in call.params else None
        start(call, wanted, host)
    return row_of(call.tx, wanted)


def row_of(tx: Tx, wanted: str) -> Row:
    return machine_row(tx, records.fetch(tx, SHAPE, inner_id("vm", wanted)))


def _template(call: Call, zone: str) -> str:
    call.needs("templateid")
    wanted = str(call.params["templateid"])
    if not usable_in(call.tx, wanted, zone, call.caller.admin):
        raise refuse(f"Unable to use template {wanted}: it is not yours, or not ready in zone {zone}")
    return wanted


def _name(call: Call, networks: list[str]) -> str:
    """Host names are unique on a network, also against VMs that are destroyed and not expunged."""
    name = str(call.get("name") or f"VM-{call.tx.ids.uuid()}")
    if not _HOST_NAME.match(name):
        raise refuse("Invalid name. Vm name can contain ASCII letters, digits and hyphens, at most 63 characters")
    taken = call.tx.db.execute(
        "SELECT 1 FROM objects o JOIN nics n ON n.vm = o.seq JOIN objects w ON w.seq = n.network "
        "WHERE o.name = ? AND o.account = ? AND w.id IN (SELECT value FROM json_each(?))",
        (name, call.tx.account, f"[{', '.join(chr(34) + one + chr(34) for one in networks)}]"),
    ).fetchone()
    if taken:
        raise refuse(f"The vm with hostName {name} already exists in the network domain")
    return name


def _check_userdata(call: Call) -> None:
    text = str(call.get("userdata") or "")
    if not call.post and len(text) > _GET_USERDATA:
        raise refuse(f"User data is too long for an http GET request: at most {_GET_USERDATA} characters")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise refuse("User data needs to be base64 encoded") from None
    limit = configuration.number(call.tx.db, "vm.userdata.max.length")
    if len(raw) > limit:
        raise refuse(f"User data is too long: {len(raw)} bytes, at most {limit:.0f}")


def _check_host(call: Call) -> None:
    if "hostid" in call.params and not call.caller.admin:
        raise ApiError(PERMISSION, "Parameter hostid can be specified by a Root Admin only")
    pair = call.get("keypair")
    if pair and not list(shelf.every(call.tx.db, "keypair", call.tx.account, pair)):
        raise refuse(f"A key pair with name '{pair}' was not found.")


def _remember(call: Call, vm: Vm, offered: shelf.Thing) -> None:
    wanted = outer_id(vm.id)
    root = shelf.put(call.tx, "volume", f"ROOT-{vm.seq}", {"root_of": wanted, "gib": size_of(call, offered)})
    doc = {
        "state": "Starting",
        "displayname": call.get("displayname"),
        "offering": offered.id,
        "offering_name": offered.name,
        "keypair": call.get("keypair"),
        "details": {key: value for entry in call.get("details") or () for key, value in entry.items()} or None,
        "root": root.id,
    }
    shelf.put(call.tx, "vm", vm.name, {key: value for key, value in doc.items() if value is not None}, wanted)


def _data_disk(call: Call, vm: Vm, zone: str) -> None:
    """A deploy may bring a first data disk; it is made and attached with the VM."""
    if "diskofferingid" not in call.params:
        return
    made = add_volume(call, f"DATA-{vm.seq}", call.params["diskofferingid"], call.get("size"), zone)
    work_of(disks.attach_disk)(call.tx, inner_id("volume", made), vm.id)
    shelf.note(call.tx, made, deviceid=1, used=True)
