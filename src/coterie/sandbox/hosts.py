"""Hosts as tenants and operators see them: where they are, whether they are up, what is free."""

from __future__ import annotations

import sqlite3

from coterie.sandbox.api import api
from coterie.sandbox.store import Store
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class HostView:
    name: str
    zone: str
    rack: str
    up: bool
    cpu: int
    ram_mb: int
    disk_mb: int
    free_cpu: int
    free_ram_mb: int
    free_disk_mb: int
    vms: int


@api("list_hosts", writes=False)
def list_hosts(tx: Tx) -> list[HostView]:
    return _read(tx.db)


def all_hosts(store: Store) -> list[HostView]:
    """The operator's look at them."""
    with store.reading() as db:
        return _read(db)


def _read(db: sqlite3.Connection) -> list[HostView]:
    rows = db.execute(
        "SELECT name, zone, rack, up, cpu, ram_mb, disk_mb, cpu - used_cpu, ram_mb - used_ram_mb, "
        "disk_mb - used_disk_mb, vms FROM hosts ORDER BY zone, rack, name"
    )
    return [HostView(name, zone, rack, bool(up), *rest) for name, zone, rack, up, *rest in rows]
