"""Guest networks in the vendor's words, and the providers of addresses and userdata."""

from __future__ import annotations

import ipaddress

from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, tag_rows, time_words
from coterie.sandbox.networks import Network
from coterie.sandbox.twist import Tx

ROUTER, DRIVE = "VirtualRouter", "ConfigDrive"
_SERVICES = ("Dhcp", "Dns", "UserData", "SourceNat", "StaticNat")
_SHARED = ("Dhcp", "Dns", "UserData", "SecurityGroup")


def is_visible(tx: Tx, network: Network) -> bool:
    """Networks that were made past this front are in no zone, so they are none of its."""
    return "zone" in shelf.doc_of(tx.db, outer_id(network.id))


def network_row(tx: Tx, network: Network) -> Row:
    wanted = outer_id(network.id)
    doc = shelf.doc_of(tx.db, wanted)
    offering = shelf.doc_of(tx.db, doc["offering"])
    within = ipaddress.ip_network(str(network.range))
    return {
        "id": wanted,
        "name": network.name,
        "displaytext": doc.get("displaytext") or network.name,
        "cidr": str(within),
        "netmask": str(within.netmask),
        "gateway": network.gateway,
        "type": offering["guest"],
        "traffictype": "Guest",
        "state": "Implemented" if network.vms or doc.get("standing") else "Allocated",
        "networkofferingid": doc["offering"],
        "created": time_words(network.created_at),
        "canusefordeploy": True,
        "acltype": "Account",
        "issystem": False,
        "service": services(offering),
        "tags": tag_rows(network, "Network"),
        **places.owner_words(network.account),
        **places.zone_words(doc["zone"]),
    }


def services(offering: Row) -> list[Row]:
    names = _SERVICES if offering["guest"] == "Isolated" else _SHARED
    told = {"UserData": offering["userdata"]}
    return [{"name": name, "provider": [{"name": told.get(name, ROUTER)}]} for name in names]


def router_address(tx: Tx, network: Network) -> str | None:
    """Of an isolated network the router is the gateway; on a shared one it is a machine beside it."""
    offering = shelf.doc_of(tx.db, shelf.doc_of(tx.db, outer_id(network.id))["offering"])
    if offering["userdata"] != ROUTER:
        return None
    if offering["guest"] == "Isolated":
        return network.gateway
    return str(ipaddress.ip_network(str(network.range))[-2])
