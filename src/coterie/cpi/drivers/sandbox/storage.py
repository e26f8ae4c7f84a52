"""Images, persistent disks and their snapshots. Of an image's file only its size and digest are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.contract import DiskHint, InvalidCall, Json, Mark, NotSupported
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.properties import DISK, Settings
from coterie.cpi.kit.marking import mark_tags, metadata_tags
from coterie.sandbox import disks, images, snapshots
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.tags import KEY_LIMIT, set_tags


class Stemcells:
    def __init__(self, cloud: CloudAccount) -> None:
        self._cloud = cloud

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        size, digest = _measure(image_path, cloud_properties)
        readable = [cloud_properties.get("name"), cloud_properties.get("version")]
        created = images.create_image(
            self._cloud.account,
            name=mark.name("-".join(str(word) for word in readable if word)),
            size_bytes=size,
            digest=digest,
            properties=cloud_properties,
            tags={**metadata_tags(env.get("tags") or {}, longest_key=KEY_LIMIT), **mark_tags(mark)},
            client_token=mark.intent,
        )
        return created.id

    def delete(self, cid: str) -> None:
        try:
            images.delete_image(self._cloud.account, cid)
        except NoSuch:
            return


def _measure(image_path: str, cloud_properties: Json) -> tuple[int, str]:
    """Size and digest of the file; a light stemcell has no file and is what its properties name."""
    if not image_path and cloud_properties:
        return 0, ""
    path = Path(image_path)
    if not image_path or not path.is_file():
        raise InvalidCall(
            f"image_path {image_path!r} is no file",
            remedy="give the image file, or no path and cloud_properties that name a light stemcell",
        )
    try:
        with path.open("rb") as file:
            return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidCall(f"image_path {image_path!r} cannot be read", why=str(error), remedy="check it") from error


class Disks:
    def __init__(self, cloud: CloudAccount, settings: Settings) -> None:
        self._cloud = cloud
        self._settings = settings

    def create(self, size_mb: int, cloud_properties: Json, vm_cid: str | None, mark: Mark) -> str:
        spec = DISK.read(cloud_properties, "cloud_properties")
        created = disks.create_disk(
            self._cloud.account,
            name=mark.name(spec.get("name", "")),
            size_mb=size_mb,
            type=spec.get("type", "standard"),
            zone=spec.get("zone"),
            near_vm=vm_cid,
            tags=mark_tags(mark),
            client_token=mark.intent,
        )
        return created.id

    def delete(self, disk_cid: str) -> None:
        try:
            disks.delete_disk(self._cloud.account, disk_cid)
        except NoSuch:
            return

    def exists(self, disk_cid: str) -> bool:
        try:
            disks.get_disk(self._cloud.account, disk_cid)
        except NoSuch:
            return False
        return True

    def attach(self, vm_cid: str, disk_cid: str) -> DiskHint:
        return {"path": disks.attach_disk(self._cloud.account, disk_cid, vm_cid), "volume_id": disk_cid}

    def detach(self, vm_cid: str, disk_cid: str) -> None:
        """A disk that is not attached to that VM is as it should be."""
        disks.detach_disk(self._cloud.account, disk_cid, vm_cid)

    def set_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        set_tags(self._cloud.account, disk_cid, "disk", metadata_tags(metadata, longest_key=KEY_LIMIT))

    def update(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> None:
        """In place, and to another type if the properties name one."""
        spec = DISK.read(cloud_properties, "cloud_properties")
        if not self._settings.resize_disk:
            raise NotSupported("this cloud cannot resize disks", remedy="copy the data to a new disk")
        present = disks.get_disk(self._cloud.account, disk_cid).size_mb
        if new_size_mb < present:
            raise NotSupported(
                f"disk {disk_cid} has {present} MB and cannot shrink", remedy="copy the data to a smaller disk"
            )
        disks.change_disk(self._cloud.account, disk_cid, size_mb=new_size_mb, type=spec.get("type"))

    def snapshot(self, disk_cid: str, metadata: Mapping[str, Any], mark: Mark) -> str:
        self._require_snapshots()
        tags = {**metadata_tags(metadata, longest_key=KEY_LIMIT), **mark_tags(mark)}
        created = snapshots.create_snapshot(
            self._cloud.account, disk_cid, name=mark.name(), tags=tags, client_token=mark.intent
        )
        return created.id

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._require_snapshots()
        try:
            snapshots.delete_snapshot(self._cloud.account, snapshot_cid)
        except NoSuch:
            return

    def _require_snapshots(self) -> None:
        if not self._settings.snapshots:
            raise NotSupported("this cloud has no snapshots", remedy="set properties.snapshots: true, or do without")
