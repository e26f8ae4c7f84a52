"""Public addresses: taken from the cloud's pool for a network, mapped one to one to a VM, given back."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox import records
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, time_words
from coterie.sandbox.fronts.cloudstack.nat import addresses_of_vm
from coterie.sandbox.fronts.cloudstack.refusals import CAPACITY, CONFLICT, ApiError, refuse
from coterie.sandbox.fronts.cloudstack.shelf import Thing
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE


def _begin(call: Call) -> str:
    call.needs("networkid", "vpcid")
    wanted = call.get("ipaddress")
    free = [thing for thing in shelf.every(call.tx.db, "publicip") if thing.doc["state"] == "Free"]
    for thing in free:
        if wanted in (None, thing.name):
            doc = {"state": "Allocated", "owner": call.tx.account, "network": call.params["networkid"]}
            shelf.note(call.tx, thing.id, **doc, allocated_at=call.tx.now, tags={})
            return thing.id
    raise ApiError(CAPACITY, f"Insufficient address capacity: {wanted or 'no address'} is not free")


@job("associateIpAddress", begin=_begin)
def associate(call: Call, wanted: str) -> Row:
    return address_row(call.tx, _find_own(call, wanted))


@job("disassociateIpAddress")
def disassociate(call: Call, wanted: str) -> None:
    _find_own(call, wanted)
    free = {"owner": None, "network": None, "vm": None, "vm_ip": None, "tags": None}
    shelf.note(call.tx, wanted, state="Free", **free)


@answers("enableStaticNat", writes=True)
def enable(call: Call) -> None:
    address = _find_own(call, call.params["ipaddressid"])
    vm = call.params["virtualmachineid"]
    if address.doc.get("vm") == vm:
        return
    if address.doc.get("vm"):
        raise ApiError(CONFLICT, f"Failed to enable static nat: ip address {address.name} is assigned already")
    if addresses_of_vm(call.tx, vm):
        raise refuse(f"Failed to enable static nat: VM {vm} has a static nat ip already")
    found = records.fetch(call.tx, SHAPE, inner_id("vm", vm))
    on = [nic for nic in found.nics if nic.network == inner_id("network", str(address.doc.get("network")))]
    if not on:
        raise refuse(f"VM {vm} is not on the network of ip address {address.name}")
    shelf.note(call.tx, address.id, vm=vm, vm_ip=on[0].ip)


@job("disableStaticNat", begin=lambda call: str(call.params["ipaddressid"]))
def disable(call: Call, wanted: str) -> None:
    if not _find_own(call, wanted).doc.get("vm"):
        raise refuse("Specified IP address id is not associated with any vm Id")
    shelf.note(call.tx, wanted, vm=None, vm_ip=None)


@answers("listPublicIpAddresses")
def list_addresses(call: Call) -> Iterator[Row]:
    """By default only what is allocated, to the caller."""
    every = list(shelf.every(call.tx.db, "publicip"))
    mine = [thing for thing in every if thing.doc.get("owner") == call.tx.account]
    free = [] if call.get("allocatedonly", True) else [thing for thing in every if thing.doc["state"] == "Free"]
    rows = (address_row(call.tx, thing) for thing in (*mine, *free))
    return filter_rows(
        call, rows, "id", "ipaddress", "associatednetworkid", "isstaticnat", "state", like=("ipaddress",)
    )


def address_row(tx: Tx, thing: Thing) -> Row:
    doc = thing.doc
    owner = str(doc.get("owner") or thing.account)
    tags = [
        {"key": key, "value": value, "resourceid": thing.id, "resourcetype": "PublicIpAddress", "account": owner}
        for key, value in (doc.get("tags") or {}).items()
    ]
    return {
        "id": thing.id,
        "ipaddress": thing.name,
        "state": doc["state"],
        "allocated": time_words(doc.get("allocated_at")),
        "associatednetworkid": doc.get("network"),
        "isstaticnat": bool(doc.get("vm")),
        "issourcenat": False,
        "virtualmachineid": doc.get("vm"),
        "vmipaddress": doc.get("vm_ip"),
        "tags": tags,
        **places.owner_words(owner),
    }


def _find_own(call: Call, wanted: str) -> Thing:
    found = shelf.get(call.tx.db, "publicip", wanted)
    if found is None or found.doc.get("owner") != call.tx.account:
        raise refuse(f"Unable to find ip address by id {wanted}")
    return found
