"""What a fresh cloud has before its first user comes: keys, offerings, a network per zone, public addresses."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from coterie.sandbox.accounts import open_account
from coterie.sandbox.api import work_of
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import configuration, jobs, places, shelf
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.network_rows import DRIVE, ROUTER
from coterie.sandbox.networks import create_network
from coterie.sandbox.security_groups import create_security_group
from coterie.sandbox.twist import Tx

ACCOUNTS = {"admin": True, "user": False}
GIB = 2**30
# name → cpu, MB; one that lets the caller choose would say None, and libcloud breaks on clouds that have one
SERVICE_OFFERINGS = {
    "tiny": (1, 512),
    "small": (1, 1024),
    "medium": (2, 4096),
    "large": (4, 8192),
    "xlarge": (8, 16384),
    "giant": (1000, 1024),
}
# name → GiB (None: the caller chooses), shared or local
DISK_OFFERINGS = {"custom": (None, "shared"), "10g": (10, "shared"), "local": (None, "local")}
# name → kind of network, provider of userdata
NETWORK_OFFERINGS = {
    "DefaultIsolatedNetworkOfferingWithSourceNatService": ("Isolated", ROUTER),
    "DefaultSharedNetworkOfferingWithSGService": ("Shared", ROUTER),
    "IsolatedNetworkOfferingWithConfigDrive": ("Isolated", DRIVE),
}
# Guest networks are in loopback, so that traffic to a simulated VM stays on this machine.
_GUEST_BLOCK = 40
_PUBLIC = [f"127.200.0.{last}" for last in range(10, 60)]


@dataclass(frozen=True, slots=True)
class Keys:
    account: str
    admin: bool
    api_key: str
    secret_key: str


def furnish(datacenter: Datacenter) -> list[Keys]:
    """Everything that is missing, so that a repeat changes nothing; the keys of all accounts."""
    for account in ACCOUNTS:
        open_account(datacenter, account)
    with datacenter.store.writing() as db:
        for statement in (*shelf.TABLES, *jobs.TABLES, configuration.TABLE):
            db.execute(statement)
        tx = Tx(db, "admin", datacenter.clock(), datacenter.ids)
        if not list(shelf.every(db, "serviceoffering")):
            _offerings(tx)
        return [_account(replace(tx, account=account), admin) for account, admin in ACCOUNTS.items()]


def default_network(zone: str) -> str:
    return f"net-{zone}"


def _offerings(tx: Tx) -> None:
    for name, (cpu, ram_mb) in SERVICE_OFFERINGS.items():
        shelf.put(tx, "serviceoffering", name, {"cpu": cpu, "ram_mb": ram_mb})
    for name, (size, storage) in DISK_OFFERINGS.items():
        shelf.put(tx, "diskoffering", name, {"gib": size, "storage": storage})
    for name, (guest, userdata) in NETWORK_OFFERINGS.items():
        shelf.put(tx, "networkoffering", name, {"guest": guest, "userdata": userdata})
    for ip in _PUBLIC:
        shelf.put(tx, "publicip", ip, {"state": "Free"})


def _account(tx: Tx, admin: bool) -> Keys:
    found = next(shelf.every(tx.db, "keys", tx.account), None)
    if found is None:
        found = shelf.put(
            tx, "keys", tx.account, {"api": secrets.token_urlsafe(48), "secret": secrets.token_urlsafe(48)}
        )
        group = work_of(create_security_group)(tx, name="default")
        shelf.put(tx, "securitygroup", "default", {"description": "Default Security Group"}, outer_id(group.id))
        for number, zone in enumerate(places.zones(tx)):
            _network(tx, zone, number)
    return Keys(tx.account, admin, found.doc["api"], found.doc["secret"])


def _network(tx: Tx, zone: str, number: int) -> None:
    block = f"127.{_GUEST_BLOCK + number}.0.0/16"
    name = default_network(zone)
    made = work_of(create_network)(tx, name=name, range=block, gateway=block.replace(".0.0/16", ".0.1"))
    isolated = next(shelf.every(tx.db, "networkoffering", name=next(iter(NETWORK_OFFERINGS))))
    shelf.put(tx, "network", name, {"zone": zone, "offering": isolated.id, "standing": True}, outer_id(made.id))
