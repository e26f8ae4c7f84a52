"""Stemcells: the archive of a disk goes through a bucket into an image, and the object is deleted. Images that are
there are used as they are."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlencode

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.gcp.client import Client, Refusal, require_marked
from coterie.cpi.drivers.gcp.marks import Row, marked, user_labels
from coterie.cpi.drivers.gcp.properties import is_image
from coterie.cpi.kit.create_once import remove_half_made
from coterie.cpi.kit.http import Answer
from coterie.cpi.kit.stemcell_files import open_disk, open_image
from coterie.slotted import dataclass

_GIB, _BLOCK, _HOLES = 2**30, 512, 64 * 1024
_PIECE = 32 * 256 * 1024  # pieces of an upload are multiples of 256 KiB
_SUFFIX = ".tar.gz"
UPLOADED = "uploaded"  # the state of what is not an image yet


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        light = cloud_properties.get("image_url")
        if light is not None:
            if not is_image(str(light)):
                raise InvalidCall(f"cloud_properties.image_url is {light!r}", remedy="give the link of an image")
            self.reference(str(light))
            return str(light)
        bucket, name = self.client.settings.stemcell_bucket, mark.name()
        if not bucket:
            raise InvalidCall("properties.stemcell_bucket is missing", remedy="name a bucket, or use a light stemcell")
        row = self.client.get(self._path(name))
        if row is None:
            body = {
                "labels": {**user_labels(env.get("tags") or {}), **marked(mark)},
                "rawDisk": {"source": f"https://storage.googleapis.com/{bucket}/{name}{_SUFFIX}"},
                "guestOsFeatures": [{"type": "VIRTIO_SCSI_MULTIQUEUE"}],
            }
            row = self._upload_and_insert(image_path, name, body, mark)
        require_marked(row, mark)
        self._wait_until_ready(name)
        try:
            self._delete_object(name)
        except CpiError as error:
            raise OutcomeUnknown(
                f"image {name} is there, and its upload beside it", why=str(error), remedy="repeat"
            ) from error
        return name

    def _upload_and_insert(self, image_path: str, name: str, body: Row, mark: Mark) -> Row:
        """What calls under one mark upload is the same, so none of them hinders another."""
        try:
            with _open_archive(Path(image_path)) as archive:
                self._upload(archive, f"{name}{_SUFFIX}", mark)
            return self.client.insert(f"create image {name}", self._path(name), body, mark)
        except OutcomeUnknown:
            raise
        except CpiError as error:
            found = self.client.get(self._path(name))
            if found is not None:  # another call under the mark was faster, and its object is gone already
                return found
            raise remove_half_made(error, lambda: self._delete_object(name)) from error

    def _wait_until_ready(self, name: str) -> None:
        row = self.client.read_settled(f"create image {name}", self._path(name))
        if row is None or row.get("status") == "FAILED":
            self.delete(name)
            raise CpiError(f"image {name} failed", why="Google gives no reason", remedy="repeat", retryable=True)

    def reference(self, cid: str) -> str:
        """As a new disk names it; refuses what is not there."""
        if "/" in cid and is_image(cid):
            path = cid.partition("/compute/v1/")[2] or cid
            path = path if path.startswith("projects/") else f"{self.client.project}/{path}"
            project, _, rest = path.removeprefix("projects/").partition("/")
            if project != self.client.settings.project:
                return path  # whether a project of others may be read says the request that uses it
            if self.client.get(f"{self.client.project}/{rest}") is None:
                raise _missing(cid)
            return path
        if "/" in cid or self.client.get(self._path(cid)) is None:
            raise _missing(cid)
        return self._path(cid)

    def delete(self, cid: str) -> None:
        """What was not uploaded is only forgotten."""
        if "/" not in cid:
            self.client.delete(f"delete image {cid}", self._path(cid))
            self._delete_object(cid)

    def list_objects(self, prefix: str) -> list[Row]:
        """What uploads left that never became an image: objects named by a mark, as rows like those of images."""
        bucket = self.client.settings.stemcell_bucket
        if not bucket:
            return []
        url = self.client.url("storage", f"storage/v1/b/{bucket}/o?{urlencode({'prefix': prefix})}")
        rows = self.client.ask_url("list uploads", url).get("items") or ()
        return [
            {
                "name": str(row["name"]).removesuffix(_SUFFIX),
                "labels": row.get("metadata") or {},
                "creationTimestamp": row.get("timeCreated"),
                "status": UPLOADED,
            }
            for row in rows
        ]

    def _path(self, name: str) -> str:
        return self.client.path("images", name)

    # -- the bucket --

    def _upload(self, file: IO[bytes], name: str, mark: Mark) -> None:
        """In pieces; after a lost answer the bucket says how far it came."""
        bucket, what = self.client.settings.stemcell_bucket, f"upload {name}"
        query = urlencode({"uploadType": "resumable", "name": name})
        body = json.dumps({"metadata": marked(mark)}).encode()
        head = {"Content-Type": "application/json"}
        url = self.client.url("storage", f"upload/storage/v1/b/{bucket}/o?{query}")
        begun = self.client.send_raw(what, "POST", url, body, head)
        session = begun.headers.get("location")
        if begun.status >= 300 or not session:
            raise _refused(what, begun)
        size, at, tries = file.seek(0, 2), 0, self.client.settings.retries
        while True:
            file.seek(at)
            piece = file.read(_PIECE)
            span = f"bytes {at}-{at + len(piece) - 1}/{size}"
            try:
                answer = self.client.send_raw(what, "PUT", session, piece, {"Content-Range": span})
            except OutcomeUnknown:
                answer = None
            if answer is None or answer.status >= 500:
                tries -= 1
                if tries < 0:
                    raise OutcomeUnknown(f"{name} could not be uploaded", remedy="repeat: it begins anew")
                time.sleep(self.client.settings.poll_s)
                answer = self.client.send_raw(what, "PUT", session, None, {"Content-Range": f"bytes */{size}"})
            if answer.status in (200, 201):
                return
            if answer.status != 308:
                raise _refused(what, answer)
            came = answer.headers.get("range", "")
            at = int(came.rpartition("-")[2]) + 1 if came else 0

    def _delete_object(self, name: str) -> None:
        bucket = self.client.settings.stemcell_bucket
        if not bucket:
            return
        url = self.client.url("storage", f"storage/v1/b/{bucket}/o/{quote(name + _SUFFIX, safe='')}")
        answer = self.client.send_raw(f"delete object {name}", "DELETE", url, None, {"Content-Length": "0"})
        if answer.status >= 300 and answer.status != 404:
            raise _refused(f"delete object {name}{_SUFFIX}", answer)


def _refused(what: str, answer: Answer) -> Refusal:
    return Refusal(what, f"HTTP {answer.status}", answer.body[:300].decode(errors="replace"), answer.status)


def _missing(cid: str) -> StemcellNotFound:
    return StemcellNotFound(f"image {cid[:200]} is not there", remedy="upload the stemcell again")


@contextmanager
def _open_archive(path: Path) -> Iterator[IO[bytes]]:
    """What Google takes: a tar.gz of disk.raw. Google's stemcells hold it as it is; another disk is packed."""
    with open_image(path) as file:
        head = file.read(4096)
        if head[:2] == b"\x1f\x8b" and zlib.decompressobj(31).decompress(head, _BLOCK)[:9] == b"disk.raw\0":
            yield file
            return
    from tempfile import TemporaryFile  # slow to import, and few calls pack

    with open_disk(path) as disk, TemporaryFile(prefix="coterie-stemcell-") as packed:
        for piece in _pack(disk):
            packed.write(piece)
        yield packed


def _pack(disk: IO[bytes]) -> Iterator[bytes]:
    """As `tar --format=oldgnu --sparse` writes it: the disk is whole GiB long, and its holes cost nothing."""
    spans, size = _data_spans(disk)
    whole = max(-(-size // _GIB), 1) * _GIB
    spans = [*spans, (whole, 0)]
    data = sum(length for _, length in spans)
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    yield packer.compress(_header(spans[:4], data, whole, is_extended=len(spans) > 4))
    for start in range(4, len(spans), 21):
        part = spans[start : start + 21]
        raw = b"".join(_octal(at, 12) + _octal(length, 12) for at, length in part).ljust(504, b"\0")
        yield packer.compress(raw + (b"\1" if start + 21 < len(spans) else b"\0") + b"\0" * 7)
    for at, length in spans:
        disk.seek(at)
        yield packer.compress(disk.read(length).ljust(length, b"\0") if length else b"")
    yield packer.compress(b"\0" * (-data % _BLOCK + 2 * _BLOCK))
    yield packer.flush()


def _data_spans(disk: IO[bytes]) -> tuple[list[tuple[int, int]], int]:
    """Where there is more than zeros, in whole blocks."""
    disk.seek(0)
    found: list[tuple[int, int]] = []
    at, zeros = 0, bytes(_HOLES)
    while piece := disk.read(_HOLES):
        if piece != zeros[: len(piece)]:
            length = -(-len(piece) // _BLOCK) * _BLOCK
            if found and sum(found[-1]) == at:
                found[-1] = found[-1][0], found[-1][1] + length
            else:
                found.append((at, length))
        at += len(piece)
    return found, at


def _header(spans: list[tuple[int, int]], data: int, whole: int, *, is_extended: bool) -> bytes:
    raw = bytearray(_BLOCK)
    raw[0:8] = b"disk.raw"
    raw[100:108], raw[108:116], raw[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    raw[124:136], raw[136:148], raw[148:156] = _octal(data, 12), _octal(0, 12), b" " * 8
    raw[156:157], raw[257:265] = b"S", b"ustar  \0"
    for number, (at, length) in enumerate(spans):
        raw[386 + 24 * number : 410 + 24 * number] = _octal(at, 12) + _octal(length, 12)
    raw[482:483], raw[483:495] = b"\1" if is_extended else b"\0", _octal(whole, 12)
    raw[148:156] = f"{sum(raw):06o}\0 ".encode()
    return bytes(raw)


def _octal(number: int, length: int) -> bytes:
    """Numbers that octal digits do not hold are binary."""
    if number < 8 ** (length - 1):
        return f"{number:0{length - 1}o}\0".encode()
    return b"\x80" + number.to_bytes(length - 1, "big")
