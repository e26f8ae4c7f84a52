"""Persistent disks and their snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import DiskHint, Form, Json, Mark, NotSupported
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud
from coterie.cpi.drivers.sandbox.marking import mark_tags, users_tags
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.cpi.kit.readers import text
from coterie.sandbox import disks, snapshots
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.tags import set_tags
from coterie.sandbox.vm_shape import get_vm


class Disks(SandboxCloud):
    @cloud_call
    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        wish = _checked(cloud_properties or {})
        made = disks.create_disk(
            self.account,
            name=mark.name(wish.get("name", "")),
            size_mb=size_mb,
            type=wish.get("type", "standard"),
            zone=wish.get("zone"),
            near_vm=vm_cid,
            tags=mark_tags(mark),
            client_token=mark.intent,
        )
        return made.id

    @cloud_call
    def delete_disk(self, disk_cid: str) -> None:
        try:
            disks.delete_disk(self.account, disk_cid)
        except NoSuch:
            return

    @cloud_call
    def has_disk(self, disk_cid: str) -> bool:
        try:
            disks.get_disk(self.account, disk_cid)
        except NoSuch:
            return False
        return True

    @cloud_call
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return {"path": disks.attach_disk(self.account, disk_cid, vm_cid), "volume_id": disk_cid}

    @cloud_call
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        """Not attached to that VM is fine: that is what was asked."""
        disks.detach_disk(self.account, disk_cid, vm_cid)

    @cloud_call
    def get_disks(self, vm_cid: str) -> list[str]:
        return list(get_vm(self.account, vm_cid).disks)

    @cloud_call
    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        set_tags(self.account, disk_cid, "disk", users_tags(metadata))

    @cloud_call
    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._resize(disk_cid, new_size_mb, None)

    @cloud_call
    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        """In place, so there is never a new cid."""
        self._resize(disk_cid, new_size_mb, _checked(cloud_properties or {}).get("type"))
        return None

    @cloud_call
    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        self._require_snapshots()
        tags = {key: str(value) for key, value in users_tags(metadata).items()}
        made = snapshots.create_snapshot(
            self.account, disk_cid, name=mark.name(), tags={**tags, **mark_tags(mark)}, client_token=mark.intent
        )
        return made.id

    @cloud_call
    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._require_snapshots()
        try:
            snapshots.delete_snapshot(self.account, snapshot_cid)
        except NoSuch:
            return

    def _resize(self, disk_cid: str, new_size_mb: int, kind: str | None) -> None:
        if not self.settings.resize_disk:
            raise NotSupported("this cloud cannot resize disks", remedy="copy the data to a new disk")
        present = disks.get_disk(self.account, disk_cid).size_mb
        if new_size_mb < present:
            raise NotSupported(
                f"disk {disk_cid} has {present} MB and cannot shrink", remedy="copy the data to a smaller disk"
            )
        disks.change_disk(self.account, disk_cid, size_mb=new_size_mb, type=kind)

    def _require_snapshots(self) -> None:
        if not self.settings.snapshots:
            raise NotSupported("this cloud has no snapshots", remedy="set properties.snapshots: true, or do without")


def _checked(cloud_properties: Json) -> Json:
    return DISK.read(cloud_properties, "cloud_properties")


DISK = Form({"type": text, "zone": text, "name": text})
