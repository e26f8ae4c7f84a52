"""Stemcells are images of the datacenter. Of a file only its size and digest are kept."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, Mark
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud
from coterie.cpi.drivers.sandbox.marking import mark_tags, users_tags
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.sandbox import images
from coterie.sandbox.errors import NoSuch


class Stemcells(SandboxCloud):
    @cloud_call
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        size, digest = _contents(image_path, cloud_properties or {})
        tags = users_tags((env or {}).get("tags") or {})
        made = images.create_image(
            self.account,
            name=mark.name(_readable(cloud_properties or {})),
            size_bytes=size,
            digest=digest,
            properties=cloud_properties or {},
            tags={**{key: str(value) for key, value in tags.items()}, **mark_tags(mark)},
            client_token=mark.intent,
        )
        return made.id

    @cloud_call
    def delete_stemcell(self, stemcell_cid: str) -> None:
        try:
            images.delete_image(self.account, stemcell_cid)
        except NoSuch:
            return


def _contents(image_path: str, cloud_properties: Json) -> tuple[int, str]:
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


def _readable(cloud_properties: Json) -> str:
    words: list[Any] = [cloud_properties.get("name"), cloud_properties.get("version")]
    return "-".join(str(word) for word in words if word)
