"""Growing, changing and copying disks: resize, change of type, snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, Json, Mark, NotSupported
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.disks import Disks, users_of
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.marking import metadata as mark_metadata
from coterie.cpi.drivers.openstack.marking import users_metadata
from coterie.cpi.drivers.openstack.order import gib, read_disk_order
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal, cloud_call

_UNFORCED = (3, 66)  # from here on snapshots of attached volumes need no word, and take none


class DiskChanges(Disks):
    @cloud_call
    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._grown(self._detached(disk_cid, new_size_mb), new_size_mb)

    @cloud_call
    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        """In place: size, type, or both."""
        order = read_disk_order(cloud_properties or {})
        disk = self._detached(disk_cid, new_size_mb)
        kind = self.volume_type(order.type) if order.type else None
        if kind and kind != disk.get("volume_type"):
            self._act(disk_cid, {"os-retype": {"new_type": kind, "migration_policy": "on-demand"}}, "change")
            self.ready_volume(disk_cid, "available")
            if self.volume(disk_cid).get("volume_type") != kind:
                raise CpiError(
                    f"disk {disk_cid} kept its type",
                    why=f"Cinder did not make it {kind}",
                    remedy="look at Cinder's log",
                )
        self._grown(disk, new_size_mb)
        return None

    @cloud_call
    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        known = self.living("snapshot", mark)
        if known is None:
            self.volume(disk_cid)
            body: Json = {
                "volume_id": disk_cid,
                "name": mark.name(),
                "metadata": {**users_metadata(metadata), **mark_metadata(mark)},
            }
            if (self.api.version("block-storage") or _UNFORCED) < _UNFORCED:
                body["force"] = True
        wanted = str(known["id"]) if known else self.once("snapshot", mark, body)[0]
        self.finished(
            lambda: self.awaited(f"snapshot {wanted}", lambda: self._finished_snapshot(wanted)),
            lambda: self.delete_snapshot(wanted),
        )
        return wanted

    @cloud_call
    def delete_snapshot(self, snapshot_cid: str) -> None:
        if self.row("snapshot", snapshot_cid) is None:
            return
        try:
            self.api.send("DELETE", f"delete snapshot {snapshot_cid}", "block-storage", f"/snapshots/{snapshot_cid}")
        except Refusal as error:
            row = self.row("snapshot", snapshot_cid)
            if error.status != MISSING and row and not is_gone(row):
                raise
        self.awaited(f"the deletion of snapshot {snapshot_cid}", lambda: self._snapshot_gone(snapshot_cid))

    def _finished_snapshot(self, wanted: str) -> Row | None:
        row = self.row("snapshot", wanted)
        if row is None or row["status"] == "error":
            raise CpiError(
                f"Cinder could not make snapshot {wanted}",
                why="its status is error" if row else "it is gone",
                remedy="repeat; if it happens again, look at Cinder's log",
                retryable=True,
            )
        return row if row["status"] == "available" else None

    def _snapshot_gone(self, wanted: str) -> bool | None:
        row = self.row("snapshot", wanted)
        if row and row["status"] == "error_deleting":
            raise CpiError(
                f"snapshot {wanted} cannot be deleted", why="error_deleting", remedy="repeat", retryable=True
            )
        return True if row is None else None

    def _detached(self, disk_cid: str, new_size_mb: int) -> Row:
        self.idle_volume(disk_cid)
        disk = self.volume(disk_cid)
        if gib(new_size_mb) < int(disk["size"]):
            raise NotSupported(f"disk {disk_cid} cannot shrink", remedy="copy it to a smaller one")
        if users_of(disk):
            raise CpiError(f"disk {disk_cid} is attached to {', '.join(users_of(disk))}", remedy="detach it first")
        return disk

    def _grown(self, disk: Row, new_size_mb: int) -> None:
        wanted = gib(new_size_mb)
        if wanted == int(disk["size"]):
            return
        self._act(str(disk["id"]), {"os-extend": {"new_size": wanted}}, "extend")

        def grown() -> bool | None:
            return True if int(self.ready_volume(str(disk["id"]), "available")["size"]) >= wanted else None

        self.awaited(f"the growth of disk {disk['id']}", grown)

    def _act(self, disk_cid: str, action: Json, what: str) -> None:
        self.api.send("POST", f"{what} disk {disk_cid}", "block-storage", f"/volumes/{disk_cid}/action", action)
