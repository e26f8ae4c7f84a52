"""NICs of VMs: an address is taken when a VM is created, and free again when the VM is deleted."""

from __future__ import annotations

import ipaddress
import sqlite3
from collections.abc import Sequence

from coterie.sandbox import networks
from coterie.sandbox.errors import AddressTaken, BadRequest
from coterie.sandbox.ranges import read_range
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

# where dynamic addresses come from on a network without a range: shared address space, routed nowhere
_ANYWHERE = "100.64.0.0/10"


@dataclass(frozen=True, slots=True)
class NicRequest:
    """`ip` None: the network picks one. `nic`: requests of one name share a NIC; "": an address without a NIC. `mac`:
    of the NIC; None: the datacenter chooses."""

    label: str
    network: str
    ip: str | None = None
    nic: str = ""
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class Nic:
    label: str
    network: str
    ip: str
    mac: str | None


def plug(tx: Tx, vm: int, requests: Sequence[NicRequest]) -> None:
    """Give the VM its addresses; a refusal names the VM that has one already."""
    nic_names = list(dict.fromkeys(request.nic for request in requests if request.nic))
    for request in requests:
        network, within, gateway = networks.resolve(tx, request.network)
        ip = _check_address(request, within, gateway) if request.ip else _pick_address(tx, network, within, gateway)
        mac = (request.mac or _mac(vm, nic_names.index(request.nic))) if request.nic else None
        _take(tx, network, ip, vm, request.label, mac)


def replug(tx: Tx, vm: int, nic: Nic, ip: str | None) -> None:
    """Another address for the same NIC, before the old one is free: it is never the same."""
    network, within, gateway = networks.resolve(tx, nic.network)
    request = NicRequest(nic.label, nic.network, ip)
    chosen = _check_address(request, within, gateway) if ip else _pick_address(tx, network, within, gateway)
    _take(tx, network, chosen, vm, nic.label, nic.mac)
    tx.db.execute("DELETE FROM nics WHERE network = ? AND ip = ? AND vm = ?", (network, nic.ip, vm))


def unplug(tx: Tx, vm: int) -> None:
    tx.db.execute("DELETE FROM nics WHERE vm = ?", (vm,))


def _check_address(request: NicRequest, within: str | None, gateway: str | None) -> str:
    try:
        ip = ipaddress.ip_address(str(request.ip))
    except ValueError:
        raise BadRequest(
            f"network {request.label}: {request.ip!r} is no address", remedy="write it like 10.1.0.7"
        ) from None
    if within is not None and ip not in read_range(within):
        raise BadRequest(f"network {request.label}: {ip} is outside {within}", remedy="use an address inside the range")
    if str(ip) == gateway:
        raise BadRequest(f"network {request.label}: {ip} is the gateway", remedy="use another address")
    return str(ip)


def _pick_address(tx: Tx, network: int, within: str | None, gateway: str | None) -> str:
    pool = read_range(within or _ANYWHERE)
    first, usable = (1, pool.num_addresses - 2) if pool.num_addresses > 2 else (0, pool.num_addresses)
    begin = tx.db.execute("SELECT next FROM networks WHERE object = ?", (network,)).fetchone()[0]
    for step in range(usable):
        offset = (begin + step) % usable
        ip = str(pool[first + offset])
        if ip != gateway and not _holder(tx, network, ip):
            tx.db.execute("UPDATE networks SET next = ? WHERE object = ?", (offset + 1, network))
            return ip
    raise AddressTaken(f"no address is left in {pool}", remedy="delete VMs on this network, or use a larger one")


def _take(tx: Tx, network: int, ip: str, vm: int, label: str, mac: str | None) -> None:
    try:
        tx.db.execute(
            "INSERT INTO nics (network, ip, vm, label, mac) VALUES (?,?,?,?,?)", (network, ip, vm, label, mac)
        )
    except sqlite3.IntegrityError:
        holder = _holder(tx, network, ip)
        raise AddressTaken(
            f"address {ip} is taken",
            why=f"{holder} has it on this network",
            remedy=f"delete {holder} if it is not needed, or use another address",
        ) from None


def _holder(tx: Tx, network: int, ip: str) -> str | None:
    row = tx.db.execute(
        "SELECT o.id FROM nics n JOIN objects o ON o.seq = n.vm WHERE n.network = ? AND n.ip = ?", (network, ip)
    ).fetchone()
    return str(row[0]) if row else None


def _mac(vm: int, nic: int) -> str:
    digits = f"{vm & 0xFFFFFFFF:08x}{nic & 0xFF:02x}"
    return ":".join(("02", *(digits[at : at + 2] for at in range(0, 10, 2))))
