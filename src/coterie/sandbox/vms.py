"""Virtual machines: made, started, rebooted and removed, each in one step with their addresses, groups and hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.sandbox import membership, placement, quotas, records
from coterie.sandbox.api import api
from coterie.sandbox.errors import BadRequest, NoSuch, Unavailable
from coterie.sandbox.fit import Demand
from coterie.sandbox.nics import NicRequest, plug, unplug
from coterie.sandbox.security_groups import protect, unprotect
from coterie.sandbox.twist import Tx
from coterie.sandbox.vm_shape import SHAPE, Vm


@api("create_vm")
def create_vm(
    tx: Tx,
    *,
    name: str,
    size: Demand,
    image: str,
    shared_image: bool = False,
    nics: Sequence[NicRequest] = (),
    group: str | None = None,
    security_groups: Sequence[str] = (),
    near_disks: Sequence[str] = (),
    user_data: str = "",
    start: bool = True,
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> Vm:
    """A VM, started by default. It joins `group` before the scheduler looks for a host.

    `shared_image`: the image may be another account's; whether it may be used was decided by the caller.
    """
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    if not shared_image:
        _require(tx, "image", image)
    _check(tx, size, near_disks)
    quotas.charge(tx, _charges(size, 1))
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    _insert(tx, seq, size, image, user_data)
    plug(tx, seq, nics)
    protect(tx, seq, security_groups)
    groups = [membership.join(tx, group, seq)] if group else []
    if start:
        _power_on(tx, seq, None, size, groups)
    return records.fetch(tx, SHAPE, made)


@api("start_vm")
def start_vm(tx: Tx, wanted: str) -> Vm:
    """Power on: a VM without a host gets one now."""
    found = records.fetch(tx, SHAPE, wanted)
    if found.state in ("running", "building"):
        return found
    _restart(tx, found)
    return records.fetch(tx, SHAPE, wanted)


@api("reboot_vm")
def reboot_vm(tx: Tx, wanted: str) -> None:
    """Off and on again, whatever its state; this cures a VM in error if its host is up."""
    _restart(tx, records.fetch(tx, SHAPE, wanted))


@api("set_vm_security_groups")
def set_vm_security_groups(tx: Tx, wanted: str, security_groups: Sequence[str]) -> None:
    """These and no others."""
    found = records.fetch(tx, SHAPE, wanted)
    if set(found.security_groups) == set(security_groups):
        return
    unprotect(tx, found.seq)
    protect(tx, found.seq, security_groups)
    records.revise(tx, found.seq)


@api("delete_vm")
def delete_vm(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    """Gone with its addresses and memberships; its disks are detached and stay."""
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    size = _size(found)
    membership.leave_all(tx, found.seq, found.host)
    if found.host:
        placement.release(tx, found.host, size)
    unplug(tx, found.seq)
    unprotect(tx, found.seq)
    _let_go_of_disks(tx, found.seq)
    quotas.charge(tx, _charges(size, -1))
    records.remove(tx, SHAPE, found.seq)


def _check(tx: Tx, size: Demand, near_disks: Sequence[str]) -> None:
    if size.cpu < 1 or size.ram_mb < 1 or size.disk_mb < 0:
        raise BadRequest(
            f"a VM of {size.cpu} cpu and {size.ram_mb} MB is too small", remedy="ask for at least 1 of each"
        )
    for disk in near_disks:
        _require(tx, "disk", disk)
        zone = tx.db.execute(
            "SELECT d.zone FROM disks d JOIN objects o ON o.seq = d.object WHERE o.id = ?", (disk,)
        ).fetchone()[0]
        if zone and size.zone and zone != size.zone:
            raise BadRequest(
                f"disk {disk} is in zone {zone}, the VM is wanted in {size.zone}",
                remedy=f"put the VM into {zone}, or use a disk of {size.zone}",
            )


def _require(tx: Tx, kind: str, wanted: str) -> None:
    found = tx.db.execute(
        "SELECT 1 FROM objects WHERE id = ? AND account = ? AND kind = ?", (wanted, tx.account, kind)
    ).fetchone()
    if not found:
        raise NoSuch(kind, wanted)


def _charges(size: Demand, sign: int) -> dict[str, int]:
    return {"instances": sign, "cpu": sign * size.cpu, "ram_mb": sign * size.ram_mb}


def _insert(tx: Tx, seq: int, size: Demand, image: str, user_data: str) -> None:
    tx.db.execute(
        "INSERT INTO vms (object, state, ready_at, zone, cpu, ram_mb, disk_mb, image, user_data) "
        "VALUES (?,'stopped',0,?,?,?,?,?,?)",
        (seq, size.zone, size.cpu, size.ram_mb, size.disk_mb, image, user_data),
    )


def _restart(tx: Tx, vm: Vm) -> None:
    _power_on(tx, vm.seq, vm.host, _size(vm), membership.groups_of(tx, vm.seq))
    records.revise(tx, vm.seq)


def _power_on(tx: Tx, seq: int, host: str | None, size: Demand, groups: Sequence[int]) -> None:
    if host is None:
        host = placement.find_host(tx, size, groups)
        placement.claim(tx, host, size, groups)
    elif not tx.db.execute("SELECT up FROM hosts WHERE name = ?", (host,)).fetchone()[0]:
        raise Unavailable(f"host {host} is down", remedy=f"delete the VM, or `coterie sandbox host up {host}`")
    tx.db.execute(
        "UPDATE vms SET state = ?1, ready_at = ?2, host = ?3, "
        "zone = coalesce(zone, (SELECT zone FROM hosts WHERE name = ?3)) WHERE object = ?4",
        ("error" if tx.twist.broken_vm else "running", tx.now + tx.twist.build_s, host, seq),
    )


def _size(vm: Vm) -> Demand:
    return Demand(vm.cpu, vm.ram_mb, vm.disk_mb, vm.zone)


def _let_go_of_disks(tx: Tx, vm: int) -> None:
    tx.db.execute(
        "UPDATE objects SET revision = revision + 1 WHERE seq IN (SELECT object FROM disks WHERE vm = ?)", (vm,)
    )
    tx.db.execute("UPDATE disks SET vm = NULL, device = NULL WHERE vm = ?", (vm,))
