"""Guest networks, each in one zone. One that a VM is on cannot be deleted, though the VM be destroyed already."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from coterie.sandbox import networks, records
from coterie.sandbox.api import work_of
from coterie.sandbox.errors import InUse
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.desk import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, gathered, records_of, sifted, tag_rows, time_words
from coterie.sandbox.fronts.cloudstack.nat import addresses_of
from coterie.sandbox.fronts.cloudstack.refusals import INTERNAL, ApiError, refuse
from coterie.sandbox.networks import SHAPE, Network
from coterie.sandbox.twist import Tx

_SERVICES = ("Dhcp", "Dns", "UserData", "SourceNat", "StaticNat")


@answers("createNetwork", writes=True)
def create(call: Call) -> Row:
    zone = places.zone_named(call.tx, call.params["zoneid"])
    gateway, netmask = call.get("gateway"), call.get("netmask")
    if bool(gateway) != bool(netmask):
        raise refuse("gateway and netmask should be passed in together")
    within = _range(gateway, netmask) if gateway else None
    name = call.params["name"]
    made = work_of(networks.create_network)(call.tx, name=name, range=within, gateway=gateway)
    doc = {"zone": zone, "offering": call.params["networkofferingid"], "displaytext": call.get("displaytext") or name}
    shelf.put(call.tx, "network", name, doc, outer_id(made.id))
    return _row(call.tx, made)


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
    rows = gathered(call, lambda tx: (_row(tx, one) for one in records_of(tx, SHAPE) if _shown(tx, one)))
    return sifted(call, rows, "id", "name", "zoneid", "type", "traffictype", like=("name", "displaytext"))


def _shown(tx: Tx, network: Network) -> bool:
    """Networks that were made past this front are in no zone, so they are none of its."""
    return "zone" in shelf.doc_of(tx.db, outer_id(network.id))


def _row(tx: Tx, network: Network) -> Row:
    wanted = outer_id(network.id)
    doc = shelf.doc_of(tx.db, wanted)
    within = ipaddress.ip_network(str(network.range))
    return {
        "id": wanted,
        "name": network.name,
        "displaytext": doc.get("displaytext") or network.name,
        "cidr": str(within),
        "netmask": str(within.netmask),
        "gateway": network.gateway,
        "type": "Isolated",
        "traffictype": "Guest",
        "state": "Implemented" if network.vms or doc.get("standing") else "Allocated",
        "networkofferingid": doc["offering"],
        "created": time_words(network.created_at),
        "canusefordeploy": True,
        "acltype": "Account",
        "issystem": False,
        "service": [{"name": name} for name in _SERVICES],
        "tags": tag_rows(network, "Network"),
        **places.owner_words(network.account),
        **places.zone_words(doc["zone"]),
    }


def _range(gateway: str, netmask: str) -> str:
    try:
        return str(ipaddress.ip_network(f"{gateway}/{netmask}", strict=False))
    except ValueError:
        raise refuse(f"Invalid gateway {gateway} or netmask {netmask}") from None


def fetch(tx: Tx, wanted: str) -> Network:
    return records.fetch(tx, SHAPE, inner_id("network", wanted))
