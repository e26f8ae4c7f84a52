"""How objects of each kind are listed and read as the contract's objects. Marks are in names; two kinds differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from coterie.cpi.contract import Kind
from coterie.cpi.drivers.cloudstack.api import Row


@dataclass(frozen=True, slots=True)
class Listing:
    """`by_name`: the parameter that finds one name. `keyword`: whether the cloud itself sorts out other names."""

    command: str
    by_name: str | None = "name"
    keyword: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)


LISTINGS: dict[Kind, Listing] = {
    "vm": Listing("listVirtualMachines"),
    "disk": Listing("listVolumes", more={"type": "DATADISK"}),
    "snapshot": Listing("listSnapshots"),
    "image": Listing("listTemplates", more={"templatefilter": "self"}),
    "network": Listing("listNetworks", by_name="keyword"),
    "server_group": Listing("listAffinityGroups"),
    "security_group": Listing("listSecurityGroups", by_name=None, keyword=False),
    "ip": Listing("listPublicIpAddresses", by_name=None, keyword=False),
    "keypair": Listing("listSSHKeyPairs"),
}
FILTERED: frozenset[str] = frozenset(kind for kind, listing in LISTINGS.items() if listing.keyword)
_GONE = ("Destroyed", "Expunging", "Expunged", "Destroy")
_STATES = {"Running": "running", "Stopped": "stopped", "Error": "error", "Starting": "building", "Stopping": "stopped"}


def is_gone(row: Row) -> bool:
    """What is on its way out is no object any more."""
    return row.get("state") in _GONE


def created_at(row: Row) -> float | None:
    text = row.get("created") or row.get("allocated")
    return datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%S%z").timestamp() if text else None


def state_of(kind: Kind, row: Row) -> str | None:
    if kind == "vm":
        return _STATES.get(str(row.get("state")))
    return row.get("state") or row.get("status")


def users_of(kind: Kind, row: Row) -> tuple[str, ...] | None:
    """Who uses it, as far as the cloud says; None: it does not."""
    if kind in ("disk", "ip"):
        return (str(row["virtualmachineid"]),) if row.get("virtualmachineid") else ()
    if kind == "server_group":
        return tuple(row.get("virtualmachineIds") or ())
    if kind == "security_group":
        return tuple(row.get("virtualmachineids") or ())
    return () if kind in ("vm", "snapshot") else None
