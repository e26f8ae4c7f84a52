"""What the cloud runs for itself, for administrators: storage VMs, image stores, virtual routers."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.fronts.cloudstack import configuration, places
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, records_of, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.network_rows import is_visible, network_row, router_address
from coterie.sandbox.networks import SHAPE
from coterie.sandbox.twist import Tx


@answers("listSystemVms")
def list_system_vms(call: Call) -> Iterator[Row]:
    up = configuration.flag(call.tx.db, "coterie.storage.vms")
    rows = (
        {
            "id": places.id_of("systemvm", f"{kind}/{zone}"),
            "name": f"{kind[0]}-{number}-VM",
            "systemvmtype": kind,
            "state": "Running",
            "agentstate": "Up" if up or kind != "secondarystoragevm" else "Disconnected",
            "publicip": "127.0.0.1",
            "hypervisor": places.HYPERVISOR,
            **places.zone_words(zone),
        }
        for number, zone in enumerate(places.zones(call.tx), 1)
        for kind in ("secondarystoragevm", "consoleproxy")
    )
    return filter_rows(call, rows, "id", "name", "zoneid", "state", "systemvmtype")


@answers("listImageStores")
def list_image_stores(call: Call) -> Iterator[Row]:
    rows = (
        {
            "id": places.id_of("imagestore", zone),
            "name": f"{zone}-secondary",
            "protocol": "nfs",
            "providername": "NFS",
            "scope": "ZONE",
            "readonly": False,
            **places.zone_words(zone),
        }
        for zone in places.zones(call.tx)
    )
    return filter_rows(call, rows, "id", "name", "zoneid", "protocol")


@answers("listRouters")
def list_routers(call: Call) -> Iterator[Row]:
    """One for each network that has one; whose addresses come from elsewhere has none."""

    def rows(tx: Tx) -> Iterator[Row]:
        for network in records_of(tx, SHAPE):
            address = router_address(tx, network) if is_visible(tx, network) else None
            if address:
                yield _router(network_row(tx, network), address)

    wanted = call.get("networkid")
    found = (row for row in rows_of_accounts(call, rows) if wanted in (None, row["guestnetworkid"]))
    return filter_rows(call, found, "id", "name", "zoneid", "state")


def _router(network: Row, address: str) -> Row:
    return {
        "id": places.id_of("router", network["id"]),
        "name": f"r-{network['id'][:8]}-VM",
        "state": "Running",
        "role": "VIRTUAL_ROUTER",
        "guestipaddress": address,
        "guestnetworkid": network["id"],
        "guestnetworkname": network["name"],
        "zoneid": network["zoneid"],
        "zonename": network["zonename"],
    }
