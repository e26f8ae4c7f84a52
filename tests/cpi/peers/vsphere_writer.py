"""One of many processes that make VMs in one group. Prints `ack CID` for each VM whose join was acknowledged,
and each report of the driver with its kind."""

from __future__ import annotations

import json
import sys
from typing import Any

from coterie.cpi.contract import CpiError, Mark, Runtime
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import Ids
from coterie.ledger.store import Ledger


def main(order: dict[str, Any]) -> None:
    coordinator = LedgerCoordinator(Ledger.open(order["ledger"]), order["name"], lease_s=order["lease_s"])
    cpi, ids = VsphereCpi("lab", order["properties"], Runtime(order["director"], coordinator, report=tell)), Ids()
    for _ in range(order["vms"]):
        try:
            made = cpi.create_vm(
                ids.uuid(),
                order["stemcell"],
                {"cpu": 1, "ram": 256, "disk": 0, "zone": "z1"},
                {},
                [],
                {"bosh": {"server_group_cid": order["group"]}},
                mark=Mark(order["director"], ids.intent()),
            )
            print("ack", made.cid, flush=True)
        except CpiError as error:
            print("failed", error, flush=True)


def tell(kind: str, body: str) -> None:
    print(kind, body, flush=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
