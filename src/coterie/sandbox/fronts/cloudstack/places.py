"""The building in the vendor's words: zones, pods (racks) and hosts, with uuids that follow from their names."""

from __future__ import annotations

import uuid
from functools import lru_cache

from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.twist import Tx

_SPACE = uuid.UUID("6f1f3f0e-6d7e-5f0e-9a3f-2c7a0a4c9b11")
HYPERVISOR = "KVM"
_TYPES = ("XenServer", "KVM", "VMware", "Hyperv", "LXC", "Ovm3", "BareMetal", "Simulator")
HYPERVISOR_TYPES = {name.lower(): name for name in _TYPES}  # what a template may be for; case does not count
OS_TYPES = ("Other Linux (64-bit)", "Other PV (64-bit)", "Ubuntu 22.04 LTS", "Other (64-bit)")


@lru_cache(maxsize=4096)
def id_of(kind: str, name: str) -> str:
    return str(uuid.uuid5(_SPACE, f"{kind}/{name}"))


def zones(tx: Tx) -> list[str]:
    return [row[0] for row in tx.db.execute("SELECT DISTINCT zone FROM hosts ORDER BY zone")]


def hosts(tx: Tx) -> list[str]:
    return [row[0] for row in tx.db.execute("SELECT name FROM hosts ORDER BY name")]


def find_zone(tx: Tx, zone_id: str) -> str:
    for zone in zones(tx):
        if id_of("zone", zone) == zone_id:
            return zone
    raise refuse(f"Unable to find zone by id {zone_id}")


def find_host(tx: Tx, host_id: str) -> str:
    for host in hosts(tx):
        if id_of("host", host) == host_id:
            return host
    raise refuse(f"Unable to find host by id {host_id}")


def pool_host(tx: Tx, pool_id: str) -> str | None:
    """The host whose local pool this is; None: it is a shared one."""
    return next((host for host in hosts(tx) if id_of("pool", host) == pool_id), None)


def zone_words(zone: str | None) -> dict[str, str | None]:
    return {"zoneid": id_of("zone", zone) if zone else None, "zonename": zone}


def owner_words(account: str) -> dict[str, str]:
    return {"account": account, "domain": "ROOT", "domainid": id_of("domain", "ROOT")}
