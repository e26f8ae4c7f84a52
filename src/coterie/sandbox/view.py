"""The whole datacenter as one document, for people and programs that look at it. Nothing is changed by looking."""

from __future__ import annotations

import sqlite3
from typing import Any

from coterie.sandbox import hosts
from coterie.sandbox.store import Store

_VMS = """
SELECT o.id, o.name, o.account, v.state, v.host, v.zone, v.cpu, v.ram_mb,
  (SELECT group_concat(n.ip, ' ') FROM nics n WHERE n.vm = o.seq)
FROM objects o JOIN vms v ON v.object = o.seq ORDER BY o.seq
"""
_GROUPS = "SELECT o.seq, o.id, o.name, o.account, g.policy, g.model, g.zone, g.members FROM objects o \
JOIN server_groups g ON g.object = o.seq ORDER BY o.seq"
_MEMBERS = "SELECT o.id, o.name, v.host FROM members m JOIN vms v ON v.object = m.vm JOIN objects o ON o.seq = m.vm \
WHERE m.server_group = ? ORDER BY m.vm"
_COUNTED = ("disk", "snapshot", "image", "network", "security_group", "label")


def picture(store: Store) -> dict[str, Any]:
    """Zones with racks, hosts and their VMs; groups with their members; accounts with their quotas."""
    with store.reading() as db:
        machines = [_vm(row) for row in db.execute(_VMS)]
        groups = [_group(db, row) for row in db.execute(_GROUPS).fetchall()]
        accounts = [_account(db, row[0], row[1]) for row in db.execute("SELECT name, groups FROM accounts").fetchall()]
    return {
        "zones": _zones(store, machines),
        "unplaced": [vm for vm in machines if vm["host"] is None],
        "groups": groups,
        "accounts": accounts,
    }


def _vm(row: tuple[Any, ...]) -> dict[str, Any]:
    keys = ("id", "name", "account", "state", "host", "zone", "cpu", "ram_mb", "addresses")
    found = dict(zip(keys, row, strict=True))
    found["addresses"] = (found["addresses"] or "").split()
    return found


def _group(db: sqlite3.Connection, row: tuple[Any, ...]) -> dict[str, Any]:
    keys = ("id", "name", "account", "policy", "model", "zone", "size")
    members = [{"vm": vm, "name": name, "host": host} for vm, name, host in db.execute(_MEMBERS, (row[0],))]
    return {**dict(zip(keys, row[1:], strict=True)), "members": members}


def _account(db: sqlite3.Connection, name: str, groups: str) -> dict[str, Any]:
    usage = db.execute("SELECT resource, used, ceiling FROM usage WHERE account = ? ORDER BY resource", (name,))
    counted = dict(db.execute("SELECT kind, count(*) FROM objects WHERE account = ? GROUP BY kind", (name,)).fetchall())
    return {
        "name": name,
        "groups": groups,
        "quotas": {resource: {"used": used, "limit": ceiling} for resource, used, ceiling in usage},
        "objects": {kind: counted.get(kind, 0) for kind in _COUNTED},
    }


def _zones(store: Store, machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    zones: dict[str, dict[str, list[dict[str, Any]]]] = {}
    residents: dict[str, list[dict[str, Any]]] = {}
    for vm in machines:
        residents.setdefault(vm["host"], []).append(vm)
    for host in hosts.all_hosts(store):
        racks = zones.setdefault(host.zone, {})
        racks.setdefault(host.rack, []).append(_host(host, residents.get(host.name, [])))
    return [
        {"name": zone, "racks": [{"name": rack, "hosts": held} for rack, held in racks.items()]}
        for zone, racks in zones.items()
    ]


def _host(host: hosts.HostView, residents: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": host.name,
        "up": host.up,
        "cpu": host.cpu,
        "ram_mb": host.ram_mb,
        "disk_mb": host.disk_mb,
        "free_cpu": host.free_cpu,
        "free_ram_mb": host.free_ram_mb,
        "free_disk_mb": host.free_disk_mb,
        "vms": residents,
    }
