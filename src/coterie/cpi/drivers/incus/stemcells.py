"""Stemcells as images: a unified tarball with `metadata.yaml` and `rootfs`, as Incus has it. Incus knows images by the
hash of its bytes, and refuses the same bytes twice: so each upload begins with an entry that holds its mark, packed as
the rest is, and two Directors share no image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from urllib.parse import urlencode

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, StemcellNotFound
from coterie.cpi.drivers.incus.client import Client, Refusal, Row, look_after
from coterie.cpi.kit.marking import DIRECTOR, INTENT, mark_tags, metadata_tags, read_mark_tags
from coterie.cpi.kit.publishing import file_pieces
from coterie.slotted import dataclass

_PATH = "/images"
_COPYING = "Downloading image"  # so are uploads called, too
_METADATA, _ENTRIES, _LONGEST = "metadata.yaml", 100, 1 << 20  # it is among the first entries
_BRANDS = ("incus", "lxd")  # each reads headers of its own name only
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"
_IGNORED = (
    *("name", "version", "infrastructure", "hypervisor", "disk", "disk_format", "container_format", "os_type"),
    *("os_distro", "os", "architecture", "root_device_name"),
)


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        for key in cloud_properties:
            if key not in _IGNORED:
                raise InvalidCall(f"cloud_properties.{key} is not known", remedy="leave it out")
        path = Path(image_path)
        if not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        _require_properties(path)
        first = _mark_entry(mark, _head(path))
        properties = {**metadata_tags(env.get("tags") or {}), **mark_tags(mark)}
        known = self.find(mark)
        if known is None:
            self._upload(path, first, properties, mark)
            known = self.find(mark)
        if known is None:
            raise CpiError("the image was deleted while it was made", remedy="repeat", retryable=True)
        return str(known["fingerprint"])

    def find(self, mark: Mark) -> Row | None:
        rows = self.client.rows("find an image", _PATH, {f"properties.{INTENT}": mark.intent})
        return next((row for row in rows if mark_of_image(row) == mark), None)

    def delete(self, cid: str) -> None:
        if self.read(cid) is None:
            return
        self._await_copies()
        try:
            self.client.run(f"delete image {cid}", "DELETE", f"{_PATH}/{cid}")
        except Refusal as error:
            if not error.is_missing and self.read(cid):
                raise

    def _await_copies(self) -> None:
        """Each image is copied from member to member, and Incus 6.0 crashes on a member that copies one while it is
        deleted. Operations of that kind do not tell their image, so all are waited for."""
        for row in self.client.running():
            if row.get("description") == _COPYING:
                with suppress(CpiError):
                    self.client.wait("copy an image", str(row["id"]))

    def read(self, cid: str) -> Row | None:
        """By its whole fingerprint: Incus takes the beginning of one, too."""
        row: Row | None = self.client.ask(f"read image {cid}", f"{_PATH}/{cid}") if cid.isalnum() else None
        return row if row and row["fingerprint"] == cid else None

    def require(self, cid: str, type_: str) -> None:
        row = self.read(cid)
        if row is None:
            raise StemcellNotFound(f"image {cid[:80]} is not there", remedy="upload the stemcell again")
        if row.get("type") not in (None, type_):
            raise InvalidCall(
                f"image {cid[:12]} is a {row['type']}, the VM is to be a {type_}",
                remedy="use another stemcell, or set `type` in the VM's cloud_properties",
            )

    def _upload(self, path: Path, first: bytes, properties: Mapping[str, str], mark: Mark) -> None:
        """Of two calls at once Incus refuses one: then the other's image counts."""

        def body() -> Iterator[bytes]:
            yield first
            yield from file_pieces(path)

        headers = {
            "content-type": "application/octet-stream",
            "content-length": str(len(first) + path.stat().st_size),
        }
        for brand in _BRANDS:
            headers |= {f"x-{brand}-filename": path.name, f"x-{brand}-properties": urlencode(properties)}
        try:
            self.client.upload("upload an image", _PATH, body(), headers)
        except Refusal as error:
            if not look_after(error, lambda: self.find(mark)):
                raise


def mark_of_image(row: Row) -> Mark | None:
    return read_mark_tags(row.get("properties") or {})


def image_tags(row: Row) -> dict[str, str]:
    return {str(key): str(value) for key, value in (row.get("properties") or {}).items()}


def of_director(director_uuid: str) -> dict[str, str]:
    return {f"properties.{DIRECTOR}": director_uuid}


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(6)


def _require_properties(path: Path) -> None:
    """The daemon of Incus 6.0 crashes on an upload with properties where the image has none of its own. What cannot be
    read here is Incus's to judge."""
    import lzma
    import tarfile
    import zlib

    text = b"properties:"
    broken = (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError)
    with suppress(*broken), tarfile.open(path, "r|*") as archive:
        first = takewhile(lambda one: one.size <= _LONGEST, islice(archive, _ENTRIES))
        found = next((one for one in first if one.name.removeprefix("./") == _METADATA), None)
        file = archive.extractfile(found) if found else None
        text = file.read() if file else text
    if b"properties" not in text:
        raise InvalidCall(
            f"{_METADATA} of the image has no properties",
            why="Incus's daemon crashes on such an upload",
            remedy="add `properties: {os: NAME}` to it",
        )


def _mark_entry(mark: Mark, head: bytes) -> bytes:
    """One entry of a tar archive, to which the rest is appended; gzip and xz take one stream after another."""
    import gzip
    import lzma
    import tarfile

    text = f"{mark.director} {mark.intent}\n".encode()
    entry = tarfile.TarInfo("coterie-mark")
    entry.size = len(text)
    block = entry.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0")
    if head.startswith(_GZIP):
        return gzip.compress(block, mtime=0)
    if head.startswith(_XZ):
        return lzma.compress(block)
    return block
