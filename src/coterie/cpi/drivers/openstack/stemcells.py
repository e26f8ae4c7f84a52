"""Stemcells: an image is uploaded to Glance under an id that follows from its mark, so that it is made once; a light
one is an image that is there, used as it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, StemcellNotFound
from coterie.cpi.drivers.openstack.client import CONFLICT, Client, Refusal
from coterie.cpi.drivers.openstack.lookups import LIGHT, Lookups
from coterie.cpi.drivers.openstack.rows import Rows, tags, user_metadata
from coterie.cpi.kit.create_once import chosen_ids, create_with_id, wait_or_remove
from coterie.cpi.kit.stemcell_files import open_disk
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.slotted import dataclass

_SPACE = uuid.UUID("5a1a3a0c-6f0e-5d57-9d9c-3d1f0b8e7a41")
_CHUNK = 2**18
_OWN = ("image_id", "disk_format", "container_format", "visibility")
# what stemcells say of themselves that Glance keeps as properties of the image; others of these families may follow
_PROPERTIES = ("version", "os_type", "os_distro", "architecture", "auto_disk_config", "hypervisor_type")
_FAMILIES = ("hw_", "os_", "vmware_", "img_")
_IGNORED = ("name", "infrastructure", "hypervisor", "disk", "root_device_name", "image_format", "os")


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client
    rows: Rows
    lookups: Lookups
    waits: Waits

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        properties = _read_properties(cloud_properties)
        if "image_id" in properties:
            return LIGHT + str(self.lookups.image(str(properties["image_id"]))["id"])
        path = Path(image_path)
        if not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        body = self._body(properties, mark, user_metadata(env.get("tags") or {}))
        with open_disk(path) as disk:
            return create_with_id(
                chosen_ids(_SPACE, mark), lambda wanted: self._create_or_follow(wanted, body, disk), "an image"
            )

    def delete(self, stemcell_cid: str) -> None:
        """A light one is only forgotten: the image was never ours."""
        if not stemcell_cid.startswith(LIGHT) and self.rows.read("image", stemcell_cid):
            self.delete_image(stemcell_cid)

    def delete_image(self, wanted: str) -> None:
        self.lookups.forget_image(wanted)
        self.rows.delete("image", wanted)

    def _create_or_follow(self, wanted: str, body: Json, disk: IO[bytes]) -> str | None:
        """The image with this id, ready; None where it was deleted before: Glance takes no id twice."""
        try:
            self.client.send("POST", "create an image", "image", "/images", {**body, "id": wanted})
        except Refusal as error:
            if error.status != CONFLICT or error.is_quota:
                raise
            return self._follow(wanted, disk) if self.rows.read("image", wanted) else None
        return self._upload_or_remove(wanted, disk)

    def _follow(self, wanted: str, disk: IO[bytes]) -> str | None:
        """Another call created it: it uploads now, or died before it did."""
        with suppress(Overdue):
            return self._wait_until_active(wanted, self.client.settings.settle_s)
        row = self.rows.read("image", wanted)
        if row and row["status"] == "queued":
            return self._upload_or_remove(wanted, disk)
        return self._wait_until_active(wanted, self.client.settings.state_timeout) if row else None

    def _upload_or_remove(self, wanted: str, disk: IO[bytes]) -> str:
        return wait_or_remove(lambda: self._upload(wanted, disk), lambda: self.delete_image(wanted))

    def _upload(self, wanted: str, disk: IO[bytes]) -> str:
        kind, path = {"Content-Type": "application/octet-stream"}, f"/images/{wanted}/file"
        try:
            self.client.send("PUT", f"upload image {wanted}", "image", path, headers=kind, data=_Chunks(disk))
        except Refusal as error:
            if error.status != CONFLICT:  # another call uploads the same
                raise
        return self._wait_until_active(wanted, self.client.settings.state_timeout)

    def _wait_until_active(self, wanted: str, limit_s: float) -> str:
        def look() -> str | None:
            row = self.rows.read("image", wanted)
            if row is None or row["status"] in ("killed", "deleted", "pending_delete"):
                raise StemcellNotFound(
                    f"image {wanted} is gone", why="it was deleted or killed", remedy="upload it again"
                )
            return wanted if row["status"] == "active" else None

        return self.waits.until(f"image {wanted} being active", look, limit_s)

    def _body(self, properties: Json, mark: Mark, more: dict[str, str]) -> Json:
        default = "public" if self.client.settings.stemcell_public_visibility else "private"
        return {
            "name": mark.name(),
            "disk_format": properties.get("disk_format", "qcow2"),
            "container_format": properties.get("container_format", "bare"),
            "visibility": properties.get("visibility") or default,
            "tags": tags(mark),
            **{f"tag_{key}": value for key, value in more.items()},
            **{key: str(value) for key, value in properties.items() if key not in _OWN},
        }


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The whole file each time it is iterated: a request that is repeated after a new login must not be empty."""

    source: IO[bytes]

    def __iter__(self) -> Iterator[bytes]:
        self.source.seek(0)
        while chunk := self.source.read(_CHUNK):
            yield chunk


def _read_properties(properties: Json) -> Json:
    known = (*_OWN, *_PROPERTIES)
    for key in properties:
        if key not in known and key not in _IGNORED and not key.startswith(_FAMILIES):
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(known)}")
    return {key: value for key, value in properties.items() if key not in _IGNORED and value is not None}
