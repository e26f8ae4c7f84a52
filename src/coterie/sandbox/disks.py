"""Persistent disks: they outlive the VMs that they are attached to."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_lowercase

from coterie.sandbox import pages, quotas, records, vm_shape
from coterie.sandbox.api import api
from coterie.sandbox.errors import BadRequest, InUse
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

# sda is the system disk, sdb the ephemeral one
_DEVICES = tuple(f"/dev/sd{letter}" for letter in ascii_lowercase[2:])


@dataclass(frozen=True, slots=True)
class Disk(Record):
    """`zone` None: it can be attached anywhere. `vm` and `device`: where it is attached now."""

    size_mb: int
    type: str
    zone: str | None
    vm: str | None
    device: str | None


SHAPE = Shape(
    kind="disk",
    prefix="disk",
    table="disks",
    columns=("k.size_mb, k.type, k.zone, (SELECT id FROM objects WHERE seq = k.vm), k.device",),
    value=Disk,
)


@api("create_disk")
def create_disk(
    tx: Tx,
    *,
    name: str,
    size_mb: int,
    type: str = "standard",
    zone: str | None = None,
    near_vm: str | None = None,
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> Disk:
    """A disk in `zone`, or where `near_vm` is."""
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    _check_size(size_mb)
    if near_vm:
        zone = zone or records.fetch(tx, vm_shape.SHAPE, near_vm).zone
    quotas.charge(tx, {"volumes": 1, "volume_gb": _gb(size_mb)})
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    tx.db.execute("INSERT INTO disks (object, size_mb, type, zone) VALUES (?,?,?,?)", (seq, size_mb, type, zone))
    return records.fetch(tx, SHAPE, made)


@api("get_disk", writes=False)
def get_disk(tx: Tx, wanted: str) -> Disk:
    return records.fetch(tx, SHAPE, wanted)


@api("list_disks", writes=False)
def list_disks(tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT) -> Page[Disk]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("attach_disk")
def attach_disk(tx: Tx, wanted: str, vm: str) -> str:
    """The device it appears as; attached to that VM already is the same answer again."""
    disk, machine = records.fetch(tx, SHAPE, wanted), records.fetch(tx, vm_shape.SHAPE, vm)
    if disk.vm == vm and disk.device:
        return disk.device
    _require_free(disk)
    if disk.zone and machine.zone and disk.zone != machine.zone:
        raise BadRequest(
            f"disk {wanted} is in zone {disk.zone}, VM {vm} in {machine.zone}",
            remedy="use a disk of the VM's zone, or restore a snapshot there",
        )
    device = _free_device(tx, machine)
    tx.db.execute("UPDATE disks SET vm = ?, device = ? WHERE object = ?", (machine.seq, device, disk.seq))
    records.revise(tx, disk.seq, machine.seq)
    return device


@api("detach_disk")
def detach_disk(tx: Tx, wanted: str, vm: str) -> bool:
    """False where it was not attached to that VM."""
    disk = records.fetch(tx, SHAPE, wanted)
    if disk.vm != vm:
        return False
    tx.db.execute("UPDATE disks SET vm = NULL, device = NULL WHERE object = ?", (disk.seq,))
    records.revise(tx, disk.seq, records.fetch(tx, vm_shape.SHAPE, vm).seq)
    return True


@api("change_disk")
def change_disk(tx: Tx, wanted: str, *, size_mb: int, type: str | None = None) -> Disk:
    """Grow a detached disk, change its type, or both. The cloud cannot shrink a disk."""
    disk = records.fetch(tx, SHAPE, wanted)
    _require_free(disk)
    if size_mb < disk.size_mb:
        raise BadRequest(f"disk {wanted} has {disk.size_mb} MB and cannot shrink", remedy="copy it to a smaller one")
    quotas.charge(tx, {"volume_gb": _gb(size_mb) - _gb(disk.size_mb)})
    tx.db.execute("UPDATE disks SET size_mb = ?, type = coalesce(?, type) WHERE object = ?", (size_mb, type, disk.seq))
    records.revise(tx, disk.seq)
    return records.fetch(tx, SHAPE, wanted)


@api("delete_disk")
def delete_disk(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    """Its snapshots are copies, and stay."""
    disk = records.fetch(tx, SHAPE, wanted)
    records.require_revision(disk, revision)
    _require_free(disk)
    quotas.charge(tx, {"volumes": -1, "volume_gb": -_gb(disk.size_mb)})
    records.remove(tx, SHAPE, disk.seq)


def _check_size(size_mb: int) -> None:
    if isinstance(size_mb, bool) or not isinstance(size_mb, int) or size_mb < 1:
        raise BadRequest(f"a disk of {size_mb!r} MB cannot be made", remedy="ask for a whole number of MB above 0")


def _require_free(disk: Disk) -> None:
    if disk.vm:
        raise InUse(f"disk {disk.id} is attached to {disk.vm}", remedy="detach it first")


def _free_device(tx: Tx, vm: vm_shape.Vm) -> str:
    taken = {row[0] for row in tx.db.execute("SELECT device FROM disks WHERE vm = ?", (vm.seq,))}
    for device in _DEVICES:
        if device not in taken:
            return device
    raise BadRequest(f"VM {vm.id} has no room for another disk", remedy=f"attach at most {len(_DEVICES)} disks")


def _gb(size_mb: int) -> int:
    return -(-size_mb // 1024)
