"""Persistent disks as Cinder volumes. Sizes are rounded up to GiB, never down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, DiskHint, DiskNotFound, InvalidCall, Json, Mark
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.machines import Machines
from coterie.cpi.drivers.openstack.marking import metadata, users_metadata
from coterie.cpi.drivers.openstack.order import gib, read_disk_order
from coterie.cpi.drivers.openstack.refusals import BAD, MISSING, Refusal, cloud_call

_SERIAL = 20  # characters of a volume's id that a virtio disk has as its serial number
_BUSY = ("creating", "attaching", "detaching", "extending", "retyping", "reserved", "maintenance")
_NAME_LIMIT = 255
_REMOVAL_REMEDY = "delete its snapshots, and end what else holds it, first"


class Disks(Machines):
    @cloud_call
    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        order = read_disk_order(cloud_properties or {})
        if size_mb < 1:
            raise InvalidCall(f"a disk of {size_mb} MB cannot be made", remedy="ask for at least 1 MB")
        zone = self.volume_zone(order.availability_zone or self._zone_of(vm_cid))
        if order.availability_zone and zone is None:
            raise InvalidCall(
                f"cloud_properties.availability_zone {order.availability_zone!r} is none of Cinder's",
                remedy=f"use one of: {', '.join(self.volume_zones())}",
            )
        body: Json = {
            "size": gib(size_mb),
            "name": (order.name or mark.name())[:_NAME_LIMIT],
            "metadata": metadata(mark),
            "volume_type": self.volume_type(order.type),
            "availability_zone": zone,
        }
        wanted, _ = self.once("disk", mark, body)
        self.finished(lambda: self._settled(wanted), lambda: self.remove_volume(wanted))
        return wanted

    @cloud_call
    def delete_disk(self, disk_cid: str) -> None:
        row = self._disk(disk_cid)
        if row is None:
            return
        users = users_of(row)
        if users:
            raise CpiError(f"disk {disk_cid} is attached to {', '.join(users)}", remedy="detach it first")
        if row["status"] in _BUSY:
            self.idle_volume(disk_cid)
        try:
            self.remove_volume(disk_cid)
        except Refusal as error:
            if error.status != BAD:
                raise
            raise CpiError(f"disk {disk_cid} cannot be deleted", why=error.text, remedy=_REMOVAL_REMEDY) from error

    @cloud_call
    def has_disk(self, disk_cid: str) -> bool:
        return self._disk(disk_cid) is not None

    @cloud_call
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        self.require_vm(vm_cid)
        disk = self.volume(disk_cid)
        if disk["status"] in _BUSY:
            disk = self._settled(disk_cid)
        if vm_cid not in users_of(disk):
            if users_of(disk):
                raise CpiError(
                    f"disk {disk_cid} is attached to {', '.join(users_of(disk))}", remedy="detach it from there first"
                )
            self._attach(vm_cid, disk_cid)
            disk = self.ready_volume(disk_cid, "in-use")
        return _hint(disk, vm_cid)

    @cloud_call
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        disk = self.volume(disk_cid)
        if vm_cid not in users_of(disk):
            return
        try:
            self.api.send("DELETE", f"detach disk {disk_cid}", "compute", _attachments(vm_cid, disk_cid))
        except Refusal as error:
            if error.status != MISSING:
                raise

        def left() -> bool | None:
            return None if vm_cid in users_of(self.volume(disk_cid)) else True

        self.awaited(f"the detachment of disk {disk_cid}", left)

    @cloud_call
    def get_disks(self, vm_cid: str) -> list[str]:
        self.require_vm(vm_cid)
        rows = self.attachments(vm_cid)
        return [str(row["volumeId"]) for row in rows if not row.get("delete_on_termination")]

    @cloud_call
    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        wanted = users_metadata(metadata)
        self.volume(disk_cid)
        path = f"/volumes/{disk_cid}/metadata"
        self.api.send("POST", f"describe disk {disk_cid}", "block-storage", path, {"metadata": wanted})

    def volume(self, disk_cid: str) -> Row:
        row = self._disk(disk_cid)
        if row is None:
            raise DiskNotFound(f"disk {disk_cid[:80]} is not there", remedy="list what exists, and use one of those")
        return row

    def idle_volume(self, wanted: str) -> Row | None:
        """The volume once Cinder has ended what it does with it, well or not; None where it is gone."""

        def look() -> tuple[Row | None] | None:
            row = self.row("disk", wanted)
            return None if row and row["status"] in _BUSY else (row,)

        return self.awaited(f"volume {wanted} being idle", look)[0]

    def _settled(self, wanted: str) -> Row:
        return self.ready_volume(wanted, "available", "in-use")

    def _disk(self, wanted: str) -> Row | None:
        row = self.row("disk", wanted)
        return None if row is None or is_gone(row) else row

    def _attach(self, vm_cid: str, disk_cid: str) -> None:
        body = {"volumeAttachment": {"volumeId": disk_cid}}
        try:
            self.api.send("POST", f"attach disk {disk_cid}", "compute", _attachments(vm_cid), body)
        except Refusal:
            # whoever was faster may have attached it there too
            if vm_cid not in users_of(self._settled(disk_cid)):
                raise

    def _zone_of(self, vm_cid: str | None) -> str | None:
        server = self.row("vm", vm_cid) if vm_cid else None
        return server.get("OS-EXT-AZ:availability_zone") if server else None


def users_of(disk: Row) -> tuple[str, ...]:
    return tuple(str(one["server_id"]) for one in disk.get("attachments") or () if one.get("server_id"))


def _attachments(vm_cid: str, disk_cid: str | None = None) -> str:
    path = f"/servers/{vm_cid}/os-volume_attachments"
    return f"{path}/{disk_cid}" if disk_cid else path


def _hint(disk: Row, vm_cid: str) -> dict[str, Any]:
    """The agent finds the disk by its serial number; the path is what Nova says, which guests may ignore."""
    device = next((one.get("device") for one in disk["attachments"] if one["server_id"] == vm_cid), None)
    return {**({"path": str(device)} if device else {}), "id": str(disk["id"])[:_SERIAL], "volume_id": str(disk["id"])}
