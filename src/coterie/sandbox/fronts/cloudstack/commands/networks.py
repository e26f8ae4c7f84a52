"""Guest networks, each in one zone. One that a VM is on cannot be deleted, though the VM be destroyed already."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from coterie.sandbox import networks, records
from coterie.sandbox.api import work_of
from coterie.sandbox.errors import InUse
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.nat import addresses_of
from coterie.sandbox.fronts.cloudstack.network_rows import is_visible, network_row
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, PERMISSION, ApiError, refuse
from coterie.sandbox.networks import SHAPE, Network
from coterie.sandbox.twist import Tx


@answers("createNetwork", writes=True)
def create(call: Call) -> Row:
    zone = places.find_zone(call.tx, call.params["zoneid"])
    gateway, netmask = call.get("gateway"), call.get("netmask")
    if bool(gateway) != bool(netmask):
        raise refuse("gateway and netmask should be passed in together")
    _require_right(call)
    within = _range(gateway, netmask) if gateway else None
    name = call.params["name"]
    made = work_of(networks.create_network)(call.tx, name=name, range=within, gateway=gateway)
    doc = {"zone": zone, "offering": call.params["networkofferingid"], "displaytext": call.get("displaytext") or name}
    shelf.put(call.tx, "network", name, doc, outer_id(made.id))
    return network_row(call.tx, made)


@job("deleteNetwork")
def delete(call: Call, wanted: str) -> None:
    try:
        work_of(networks.delete_network)(call.tx, inner_id("network", wanted))
    except InUse as error:
        raise ApiError(INTERNAL, f"Failed to delete network: {error}") from None
    for address in addresses_of(call.tx, wanted):
        shelf.note(call.tx, address.id, state="Free", network=None, owner=None, vm=None)
    shelf.bury(call.tx, wanted)


@answers("listNetworks")
def list_networks(call: Call) -> Iterator[Row]:
    rows = rows_of_accounts(
        call, lambda tx: (network_row(tx, one) for one in records_of(tx, SHAPE) if is_visible(tx, one))
    )
    return filter_rows(call, rows, "id", "name", "zoneid", "type", "traffictype", like=("name", "displaytext"))


def _require_right(call: Call) -> None:
    shared = shelf.doc_of(call.tx.db, call.params["networkofferingid"]).get("guest") == "Shared"
    if shared and not call.caller.admin:
        raise ApiError(PERMISSION, "Only admin is allowed to create a shared network")


def _range(gateway: str, netmask: str) -> str:
    try:
        return str(ipaddress.ip_network(f"{gateway}/{netmask}", strict=False))
    except ValueError:
        raise refuse(f"Invalid gateway {gateway} or netmask {netmask}") from None


def fetch(tx: Tx, wanted: str) -> Network:
    return records.fetch(tx, SHAPE, inner_id("network", wanted))
