"""What the owner of the building does to it: hosts come, go and fail, VMs die, groups change behind tenants' backs.

No fault bends these acts, and no quota limits them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from coterie.sandbox import server_groups, vms
from coterie.sandbox.datacenter import Account, Datacenter
from coterie.sandbox.errors import BadRequest, InUse, NoSuch
from coterie.sandbox.fit import POLICIES
from coterie.sandbox.layout import Host
from coterie.sandbox.vm_shape import STATES


def add_host(datacenter: Datacenter, host: Host) -> None:
    with datacenter.store.writing() as db:
        added = db.execute(
            "INSERT OR IGNORE INTO hosts (name, zone, rack, cpu, ram_mb, disk_mb) VALUES (?,?,?,?,?,?)",
            (host.name, host.zone, host.rack, host.cpu, host.ram_mb, host.disk_mb),
        ).rowcount
    if not added:
        raise BadRequest(f"there is a host {host.name!r} already", remedy="choose another name")


def remove_host(datacenter: Datacenter, name: str) -> None:
    """Only an empty host can be carried out of the building."""
    with datacenter.store.writing() as db:
        row = db.execute("SELECT vms FROM hosts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise _no_host(name)
        if row[0]:
            raise InUse(f"host {name} holds {row[0]} VMs", remedy="delete them first, or set the host down")
        db.execute("DELETE FROM hosts WHERE name = ?", (name,))
        db.execute("DELETE FROM host_groups WHERE host = ?", (name,))


def set_host(datacenter: Datacenter, name: str, *, up: bool) -> list[str]:
    """A host that goes down takes its VMs to state error; they stay there when it comes back. Answers their ids."""
    with datacenter.store.writing() as db:
        if not db.execute("UPDATE hosts SET up = ? WHERE name = ?", (up, name)).rowcount:
            raise _no_host(name)
        if up:
            return []
        hit = db.execute("SELECT o.seq, o.id FROM vms v JOIN objects o ON o.seq = v.object WHERE v.host = ?", (name,))
        found = hit.fetchall()
        for seq, _ in found:
            _set_state(db, seq, "error")
            db.execute("UPDATE objects SET revision = revision + 1 WHERE seq = ?", (seq,))
    return [vm for _, vm in found]


def set_host_group(datacenter: Datacenter, name: str, hosts: Sequence[str]) -> None:
    """The hosts that host-affinity groups may name together."""
    with datacenter.store.writing() as db:
        known = {row[0] for row in db.execute("SELECT name FROM hosts")}
        for host in hosts:
            if host not in known:
                raise _no_host(host)
        db.execute("DELETE FROM host_groups WHERE name = ?", (name,))
        db.executemany("INSERT OR IGNORE INTO host_groups VALUES (?,?)", [(name, host) for host in hosts])


def kill_vm(datacenter: Datacenter, wanted: str, state: str = "stopped") -> None:
    """The VM stops or breaks, and keeps its host and addresses."""
    if state not in STATES[2:]:
        raise BadRequest(f"a VM cannot be killed into state {state!r}", remedy=f"use one of: {', '.join(STATES[2:])}")
    _change(datacenter, "vm", wanted, lambda db, seq: _set_state(db, seq, state))


def delete_vm(datacenter: Datacenter, wanted: str) -> None:
    vms.delete_vm(_owner(datacenter, "vm", wanted), wanted)


def set_group_policy(datacenter: Datacenter, wanted: str, policy: str) -> None:
    """What no tenant can do: another policy for a living group."""
    if policy not in POLICIES:
        raise BadRequest(f"there is no policy {policy!r}", remedy=f"use one of: {', '.join(POLICIES)}")
    _change(
        datacenter,
        "server_group",
        wanted,
        lambda db, seq: db.execute("UPDATE server_groups SET policy = ? WHERE object = ?", (policy, seq)),
    )


def delete_group(datacenter: Datacenter, wanted: str) -> None:
    server_groups.delete_server_group(_owner(datacenter, "server_group", wanted), wanted)


def _change(
    datacenter: Datacenter, kind: str, wanted: str, change: Callable[[sqlite3.Connection, int], object]
) -> None:
    with datacenter.store.writing() as db:
        row = db.execute("SELECT seq FROM objects WHERE id = ? AND kind = ?", (wanted, kind)).fetchone()
        if row is None:
            raise NoSuch(kind, wanted)
        change(db, row[0])
        db.execute("UPDATE objects SET revision = revision + 1 WHERE seq = ?", row)


def _owner(datacenter: Datacenter, kind: str, wanted: str) -> Account:
    with datacenter.store.reading() as db:
        row = db.execute("SELECT account FROM objects WHERE id = ? AND kind = ?", (wanted, kind)).fetchone()
    if row is None:
        raise NoSuch(kind, wanted)
    return Account(datacenter, row[0], operator=True)


def _set_state(db: sqlite3.Connection, seq: int, state: str) -> None:
    db.execute("UPDATE vms SET state = ?, ready_at = 0 WHERE object = ?", (state, seq))


def _no_host(name: str) -> NoSuch:
    return NoSuch("host", name, remedy="use a name that `coterie sandbox hosts` lists")
