"""VMs as their owners see them: lists, cards, userdata. Nothing changes here."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox import records
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.entities import inner_id
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.machine_rows import machine_row, nic_rows
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE, Vm

_FIELDS = ("id", "zoneid", "templateid", "serviceofferingid", "hostid", "state", "hypervisor")


@answers("listVirtualMachines")
def list_machines(call: Call) -> Iterator[Row]:
    sees_destroyed = call.caller.admin or call.flag("allow.user.view.destroyed.vm")
    rows = rows_of_accounts(call, lambda tx: (machine_row(tx, vm) for vm in _some(call, tx)))
    rows = (row for row in rows if sees_destroyed or row["state"] not in ("Destroyed", "Expunging"))
    rows = (row for row in rows if _member(call, row))
    # the vendor matches a part of the name here, unlike in its other lists
    part = str(call.get("name") or "").lower()
    rows = (row for row in rows if part in row["name"].lower())
    return filter_rows(call, rows, *_FIELDS, like=("name", "displayname", "state"))


@answers("listNics")
def list_nics(call: Call) -> Iterator[Row]:
    found = records.fetch(call.tx, SHAPE, inner_id("vm", call.params["virtualmachineid"]))
    return filter_rows(call, nic_rows(call.tx, found), "networkid")


@answers("getVirtualMachineUserData")
def userdata(call: Call) -> Row:
    wanted = call.params["virtualmachineid"]
    found = records.fetch(call.tx, SHAPE, inner_id("vm", wanted))
    row = call.tx.db.execute("SELECT user_data FROM vms WHERE object = ?", (found.seq,)).fetchone()
    return {"virtualmachineid": wanted, "userdata": row[0]}


def _some(call: Call, tx: Tx) -> Iterator[Vm]:
    """One VM is looked up, many are listed: the answer is the same, the work is not."""
    if "id" not in call.params:
        return records_of(tx, SHAPE)
    visible = tx.db.execute(
        "SELECT 1 FROM objects WHERE id = ? AND account = ? AND visible_at <= ?",
        (inner_id("vm", call.params["id"]), tx.account, tx.now),
    ).fetchone()
    return iter([records.fetch(tx, SHAPE, inner_id("vm", call.params["id"]))] if visible else [])


def _member(call: Call, row: Row) -> bool:
    for name, field in (("affinitygroupid", "affinitygroup"), ("securitygroupid", "securitygroup")):
        if name in call.params and call.params[name] not in [one["id"] for one in row[field]]:
            return False
    if call.get("keypair", row["keypairs"]) != row["keypairs"]:
        return False
    network = call.get("networkid")
    return not network or network in [nic["networkid"] for nic in row["nic"]]
