"""Offerings: sizes of machines and disks, and kinds of networks. All fixed when the cloud is furnished."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, time_words
from coterie.sandbox.fronts.cloudstack.network_rows import ROUTER, services
from coterie.sandbox.fronts.cloudstack.places import id_of
from coterie.sandbox.fronts.cloudstack.shelf import Thing


@answers("listServiceOfferings")
def list_service_offerings(call: Call) -> Iterator[Row]:
    return filter_rows(call, map(_service, shelf.every(call.tx.db, "serviceoffering")), "id", "name")


@answers("listDiskOfferings")
def list_disk_offerings(call: Call) -> Iterator[Row]:
    return filter_rows(call, map(_disk, shelf.every(call.tx.db, "diskoffering")), "id", "name", "storagetype")


@answers("listNetworkOfferings")
def list_network_offerings(call: Call) -> Iterator[Row]:
    return filter_rows(
        call, map(_network, shelf.every(call.tx.db, "networkoffering")), "id", "name", "guestiptype", "state"
    )


def _service(thing: Thing) -> Row:
    return {
        "id": thing.id,
        "name": thing.name,
        "displaytext": thing.name,
        "cpunumber": thing.doc["cpu"],
        "cpuspeed": 2000,
        "memory": thing.doc["ram_mb"],
        "iscustomized": thing.doc["cpu"] is None,
        "issystem": False,
        "state": "Active",
        "storagetype": "shared",
        "created": time_words(thing.created_at),
    }


def _disk(thing: Thing) -> Row:
    return {
        "id": thing.id,
        "name": thing.name,
        "displaytext": thing.name,
        "disksize": thing.doc["gib"] or 0,
        "iscustomized": thing.doc["gib"] is None,
        "storagetype": thing.doc["storage"],
        "state": "Active",
        "created": time_words(thing.created_at),
    }


def _network(thing: Thing) -> Row:
    return {
        "id": thing.id,
        "name": thing.name,
        "displaytext": thing.name,
        "guestiptype": thing.doc["guest"],
        "traffictype": "Guest",
        "state": "Enabled",
        "forvpc": False,
        "isdefault": thing.doc["userdata"] == ROUTER,
        "service": services(thing.doc),
        "specifyvlan": thing.doc["guest"] == "Shared",
        "serviceofferingid": id_of("systemoffering", "router"),
    }
