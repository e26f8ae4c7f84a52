"""Stemcells: an image is uploaded to Glance under an id that follows from its mark, so that it is made once; a light
one is an image that is there, used as it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, StemcellNotFound
from coterie.cpi.drivers.openstack.cloud import Overdue
from coterie.cpi.drivers.openstack.image_files import disk_of
from coterie.cpi.drivers.openstack.lookups import LIGHT, Lookups
from coterie.cpi.drivers.openstack.marking import tags, users_metadata
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal, cloud_call

_SPACE = uuid.UUID("5a1a3a0c-6f0e-5d57-9d9c-3d1f0b8e7a41")
_ATTEMPTS = 20
_CHUNK = 2**18
_OWN = ("image_id", "disk_format", "container_format", "visibility")
# what stemcells say of themselves that Glance keeps as properties of the image; others of these families may follow
_PROPERTIES = ("version", "os_type", "os_distro", "architecture", "auto_disk_config", "hypervisor_type")
_FAMILIES = ("hw_", "os_", "vmware_", "img_")
_IGNORED = ("name", "infrastructure", "hypervisor", "disk", "root_device_name", "image_format", "os")


class Stemcells(Lookups):
    @cloud_call
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        wish = _read(cloud_properties or {})
        if "image_id" in wish:
            return LIGHT + str(self.image(str(wish["image_id"]))["id"])
        path = Path(image_path)
        if not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        record = self._record(wish, mark, users_metadata((env or {}).get("tags") or {}))
        with disk_of(path) as disk:
            for attempt in range(_ATTEMPTS):
                wanted = str(uuid.uuid5(_SPACE, f"{mark.director}/{mark.intent}/{attempt}"))
                found = self._uploaded(wanted, record, disk)
                if found:
                    return found
        raise CpiError(
            f"{_ATTEMPTS} images under one mark came to nothing", why=f"mark {mark.intent}", remedy="use a new mark"
        )

    @cloud_call
    def delete_stemcell(self, stemcell_cid: str) -> None:
        """A light one is forgotten: the image was never ours."""
        if not stemcell_cid.startswith(LIGHT) and self.row("image", stemcell_cid):
            self.delete_image(stemcell_cid)

    def delete_image(self, wanted: str) -> None:
        self._known.pop(f"image {wanted}", None)
        try:
            self.api.send("DELETE", f"delete image {wanted}", "image", f"/images/{wanted}")
        except Refusal as error:
            if error.status != MISSING:
                raise

    def _uploaded(self, wanted: str, record: Json, disk: IO[bytes]) -> str | None:
        """The image with this id, ready; None where it was deleted before: Glance takes no id twice."""
        try:
            self.api.send("POST", "create an image", "image", "/images", {**record, "id": wanted})
        except Refusal as error:
            if error.status != CONFLICT or error.quota:
                raise
            if self.row("image", wanted) is None:
                return None
            return self._followed(wanted, disk)
        return self._filled(wanted, disk)

    def _followed(self, wanted: str, disk: IO[bytes]) -> str | None:
        """Somebody began it: they upload now, or died before they did."""
        with suppress(Overdue):
            return self._ready(wanted, self.settings.settle_s)
        row = self.row("image", wanted)
        if row and row["status"] == "queued":
            return self._filled(wanted, disk)
        return self._ready(wanted, self.settings.state_timeout) if row else None

    def _filled(self, wanted: str, disk: IO[bytes]) -> str:
        """One that cannot be made ready is removed; a lost answer leaves it for whom looks for the mark."""
        return self.finished(lambda: self._sent(wanted, disk), lambda: self.delete_image(wanted))

    def _sent(self, wanted: str, disk: IO[bytes]) -> str:
        kind, where = {"Content-Type": "application/octet-stream"}, f"/images/{wanted}/file"
        try:
            self.api.send("PUT", f"upload image {wanted}", "image", where, headers=kind, data=_Chunks(disk))
        except Refusal as error:
            if error.status != CONFLICT:  # another caller uploads the same
                raise
        return self._ready(wanted, self.settings.state_timeout)

    def _ready(self, wanted: str, limit_s: float) -> str:
        def look() -> str | None:
            row = self.row("image", wanted)
            if row is None or row["status"] in ("killed", "deleted", "pending_delete"):
                raise StemcellNotFound(
                    f"image {wanted} is gone", why="it was deleted or killed", remedy="upload it again"
                )
            return wanted if row["status"] == "active" else None

        return self.awaited(f"image {wanted} being active", look, limit_s)

    def _record(self, wish: Json, mark: Mark, more: dict[str, str]) -> Json:
        public = wish.get("visibility") or ("public" if self.settings.stemcell_public_visibility else "private")
        properties = {key: str(value) for key, value in wish.items() if key not in _OWN}
        return {
            "name": mark.name(),
            "disk_format": wish.get("disk_format", "qcow2"),
            "container_format": wish.get("container_format", "bare"),
            "visibility": public,
            "tags": tags(mark),
            **{f"tag_{key}": value for key, value in more.items()},
            **properties,
        }


class _Chunks:
    """The whole file each time it is asked for: a request that is repeated after a new login must not be empty."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        self._source.seek(0)
        while chunk := self._source.read(_CHUNK):
            yield chunk


def _read(properties: Json) -> Json:
    known = (*_OWN, *_PROPERTIES)
    for key in properties:
        if key not in known and key not in _IGNORED and not key.startswith(_FAMILIES):
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(known)}")
    return {key: value for key, value in properties.items() if key not in _IGNORED and value is not None}
