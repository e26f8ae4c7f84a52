"""Growing and copying disks: resize, change of offering, snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, Json, Mark, NotSupported
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.disks import Disks, offered_size
from coterie.cpi.drivers.cloudstack.marking import users_tags
from coterie.cpi.drivers.cloudstack.order import gib, read_disk_order
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal, cloud_call

_GIB = 2**30


class DiskChanges(Disks):
    @cloud_call
    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        disk = self._detached(disk_cid, new_size_mb)
        if gib(new_size_mb) * _GIB == int(disk["size"]):
            return
        self._require_free_size(disk)
        self._changed(disk_cid, size=gib(new_size_mb))

    @cloud_call
    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        """In place: size, offering, or both."""
        order = read_disk_order(cloud_properties or {})
        disk = self._detached(disk_cid, new_size_mb)
        offering = self.disk_offering(order.disk_offering or disk.get("diskofferingid"))
        size = offered_size(offering, gib(new_size_mb))
        if offering["id"] != disk.get("diskofferingid"):
            self._changed(disk_cid, size=size, diskofferingid=offering["id"])
        elif size and size * _GIB != int(disk["size"]):
            self._changed(disk_cid, size=size)
        return None

    @cloud_call
    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        known = self.snapshot_marked(mark)
        if known:
            return str(known["id"])
        disk = self.volume(disk_cid)
        if disk.get("state") == "Allocated":
            raise CpiError(
                f"disk {disk_cid} was never attached, so CloudStack has nothing to copy",
                remedy="attach it once before taking snapshots",
            )
        started, known = self.started_once(mark, "createSnapshot", self._snapshot, volumeid=disk_cid, name=mark.name())
        if known:
            return str(known["id"])
        wanted = str((started or {})["id"])
        try:
            self.api.wait("createSnapshot", str((started or {})["jobid"]), self.settings.state_timeout_volume)
            self.tag("Snapshot", wanted, {**users_tags(metadata), **self.mark_tags(mark)})
        except Refusal:
            self.delete_snapshot(wanted)
            raise
        return wanted

    @cloud_call
    def delete_snapshot(self, snapshot_cid: str) -> None:
        if self._snapshot(snapshot_cid) is None:
            return
        try:
            self.api.run("deleteSnapshot", id=snapshot_cid)
        except Refusal as error:
            if error.code != PARAMETER or self._snapshot(snapshot_cid):
                raise

    def snapshot_marked(self, mark: Mark) -> Row | None:
        rows = self.api.every("listSnapshots", name=mark.name())
        return next((row for row in rows if row["name"] == mark.name()), None)

    def _snapshot(self, wanted: str) -> Row | None:
        return self.row("listSnapshots", wanted)

    def _detached(self, disk_cid: str, new_size_mb: int) -> Row:
        disk = self.volume(disk_cid)
        if gib(new_size_mb) * _GIB < int(disk["size"]):
            raise NotSupported(f"disk {disk_cid} cannot shrink", remedy="copy it to a smaller one")
        if disk.get("virtualmachineid"):
            raise CpiError(f"disk {disk_cid} is attached to {disk['virtualmachineid']}", remedy="detach it first")
        return disk

    def _require_free_size(self, disk: Row) -> None:
        offering = self.disk_offering(str(disk.get("diskofferingid")))
        if not offering.get("iscustomized"):
            raise NotSupported(
                f"disk offering {offering['name']!r} fixes the size of disk {disk['id']}",
                remedy="change its offering with update_disk, or copy it to a larger disk",
            )

    def _changed(self, disk_cid: str, **parameters: Any) -> None:
        self.api.run("resizeVolume", self.settings.state_timeout_volume, id=disk_cid, **parameters)
