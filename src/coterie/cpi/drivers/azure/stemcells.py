"""Stemcells: a local disk is uploaded to a managed disk, which becomes an image; versions in galleries and images of
the marketplace are used as they are. No storage account is needed."""

from __future__ import annotations

import math
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.azure.client import Client, Refusal, Row, provisioning_state
from coterie.cpi.drivers.azure.disks import OPEN, delete_disk
from coterie.cpi.drivers.azure.tags import marked, require_marked, user_tags
from coterie.cpi.kit.http import AnswerLost, NotTaken
from coterie.cpi.kit.stemcell_files import open_disk
from coterie.slotted import dataclass

_MIB, _PAGE, _FOOTER = 2**20, 4 * 2**20, 512
_ZEROS = bytes(_PAGE)
_ACCESS_S = 24 * 3600
_TRIES = 8
_VERSION = re.compile(r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/galleries/.+", re.I)
_URN = ("publisher", "offer", "sku", "version")
_WRITES = {"x-ms-page-write": "update", "x-ms-version": "2020-10-02", "x-ms-blob-type": "PageBlob"}


@dataclass(frozen=True, slots=True)
class Stemcells:
    """`state_folder`: where this machine keeps how far uploads have come; without it they begin anew."""

    client: Client
    report: Callable[[str, str], None]
    state_folder: Path | None = None

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        light = _light_cid(cloud_properties)
        if light:
            self.reference(light)
            return light
        tags = marked(mark, **user_tags(env.get("tags") or {}))
        generation = str(cloud_properties.get("generation") or "gen2").upper().replace("GEN", "V")
        with open_disk(Path(image_path)) as file:
            return self._create(file, generation, tags, mark)

    def _create(self, file: IO[bytes], generation: str, tags: Mapping[str, str], mark: Mark) -> str:
        """Calls under one mark upload to the same disk. Whichever of them makes the image deletes the disk, and the
        others see the image."""
        name, attempt = mark.name(), 0
        while not self._is_ready(name, mark):
            attempt += 1
            row = self.client.get("disk", name)
            if row is not None and row["properties"].get("diskState") not in OPEN:
                if attempt > 1:  # the call that ended this upload makes no image of it any more
                    self._delete_disk(name)
                time.sleep(self.client.settings.poll_s)
                continue
            try:
                disk = self._upload(file, name, generation, tags)
                self._make_image(name, disk, generation, tags)
            except CpiError as error:
                last = attempt >= _TRIES or not isinstance(error, Refusal) or error.kind.retryable
                if last and not self._is_ready_or_removed(name, mark, error):
                    raise
                time.sleep(self.client.settings.poll_s)
        try:
            self._delete_disk(name)
        except CpiError as error:
            raise OutcomeUnknown(f"image {name} is there, and the disk beside it", why=str(error)) from error
        return name

    def _is_ready_or_removed(self, name: str, mark: Mark, error: CpiError) -> bool:
        """Whether another call made the image; otherwise the disk is gone after this, or the outcome unknown."""
        try:
            if self._is_ready(name, mark):
                return True
            if not isinstance(error, OutcomeUnknown):
                self._delete_disk(name)
        except CpiError as trouble:
            raise OutcomeUnknown(
                f"disk {name} may be left of an upload", why=f"{error}; then {trouble}", remedy="repeat"
            ) from error
        return False

    def _is_ready(self, name: str, mark: Mark) -> bool:
        row = self.client.get("image", name)
        if row is not None:
            require_marked(row, mark)
        return row is not None and provisioning_state(row) == "succeeded"

    def _upload(self, file: IO[bytes], name: str, generation: str, tags: Mapping[str, str]) -> str:
        size, footer = _vhd_shape(file)
        body: Row = {
            "tags": dict(tags),
            "properties": {
                "creationData": {"createOption": "Upload", "uploadSizeBytes": size + _FOOTER},
                "osType": "Linux",
                "hyperVGeneration": generation,
            },
        }
        disk = self.client.get("disk", name) or self.client.put("disk", name, body)
        access = {"access": "Write", "durationInSeconds": _ACCESS_S}
        url = self.client.post("disk", name, "beginGetAccess", access)["accessSAS"]
        upload = _Upload(self.state_folder, name, str(disk["properties"].get("uniqueId") or ""))
        tenth, begin = 0, upload.written()
        for offset, piece in _pages(file, size, begin):
            self._write_page(str(url), offset, piece)
            upload.note(offset + len(piece))
            if offset * 10 // size > tenth:
                tenth = offset * 10 // size
                self.report("stemcell.uploading", f"{name}: {tenth * 10} % of {size // _MIB} MiB")
        self._write_page(str(url), size, footer)
        self.client.post("disk", name, "endGetAccess")
        upload.end()
        return str(disk["id"])

    def _write_page(self, url: str, offset: int, piece: bytes) -> None:
        """A page may be written again, so a lost answer is repeated. The URL is a secret: no error shows it."""
        headers = {**_WRITES, "x-ms-range": f"bytes={offset}-{offset + len(piece) - 1}"}
        why = ""
        for attempt in range(self.client.settings.retries + 1):
            try:
                answer = self.client.http.request("PUT", f"{url}&comp=page", headers, piece)
            except (AnswerLost, NotTaken) as error:
                why = str(error)
            else:
                if answer.status < 300:
                    return
                why = f"HTTP {answer.status}"
                if answer.status < 500 and answer.status != 429:
                    raise Refusal("write a page of a disk", f"Upload{answer.status}", why, answer.status)
            time.sleep(min(self.client.settings.poll_s * (attempt + 1), 30.0))
        raise OutcomeUnknown("a page of a disk could not be written", why=why, remedy="repeat")

    def _make_image(self, name: str, disk: str, generation: str, tags: Mapping[str, str]) -> None:
        system = {"osType": "Linux", "osState": "Generalized", "managedDisk": {"id": disk}}
        properties = {"hyperVGeneration": generation, "storageProfile": {"osDisk": system}}
        self.client.put("image", name, {"tags": dict(tags), "properties": properties})

    def _delete_disk(self, name: str) -> None:
        """One that is still open for an upload is closed first."""
        _Upload(self.state_folder, name, "").end()
        for attempt in range(_TRIES):
            if self.client.get("disk", name) is None:
                return
            try:
                delete_disk(self.client, name)
            except Refusal as error:
                if attempt == _TRIES - 1 and not error.is_missing:
                    raise

    def reference(self, cid: str) -> Row:
        """As a new VM names it; refuses what is not there."""
        if _VERSION.fullmatch(cid):
            if self.client.get_id(cid) is None:
                raise _missing(cid)
            return {"id": cid}
        if cid.count(":") == 3:
            return dict(zip(_URN, cid.split(":"), strict=True))
        row = self.client.get("image", cid)
        if row is None:
            raise _missing(cid)
        return {"id": row["id"]}

    def delete(self, cid: str) -> None:
        """What was not uploaded is only forgotten."""
        self.client.delete("image", cid)
        if self.client.get("disk", cid) is not None:
            self._delete_disk(cid)


@dataclass(frozen=True, slots=True)
class _Upload:
    """How far an upload to a disk has come, in a file, so that a repeat under its mark goes on there. `disk`: Azure's
    id of the disk, which no other of its name has: pages of one that is gone count for nothing."""

    folder: Path | None
    name: str
    disk: str

    def written(self) -> int:
        try:
            disk, _, offset = self._file().read_text("ascii").partition(" ") if self.folder else ("", "", "")
        except OSError:
            return 0
        return int(offset) if disk and disk == self.disk and offset.isdecimal() else 0

    def note(self, offset: int) -> None:
        if self.folder and self.disk:
            new = self._file().with_suffix(".new")
            new.write_text(f"{self.disk} {offset}", "ascii")
            new.replace(self._file())

    def end(self) -> None:
        if self.folder:
            self._file().unlink(missing_ok=True)

    def _file(self) -> Path:
        return (self.folder or Path()) / f"azure-upload-{self.name}"


def _light_cid(properties: Mapping[str, Any]) -> str | None:
    image = properties.get("image")
    if isinstance(image, Mapping):
        if set(image) != set(_URN):
            raise InvalidCall("cloud_properties.image is incomplete", remedy="give publisher, offer, sku and version")
        return ":".join(str(image[key]) for key in _URN)
    found = properties.get("image_id")
    if found is not None and not _VERSION.fullmatch(str(found)):
        raise InvalidCall(f"cloud_properties.image_id is {found!r}", remedy="give the id of a version in a gallery")
    return str(found) if found else None


def _missing(cid: str) -> StemcellNotFound:
    return StemcellNotFound(f"image {cid[:200]} is not there", remedy="upload the stemcell again")


def _pages(file: IO[bytes], size: int, begin: int) -> Iterator[tuple[int, bytes]]:
    """Those from there on that are not all zeros, whole sectors long."""
    begin -= begin % _PAGE
    file.seek(begin)
    for offset in range(begin, size, _PAGE):
        piece = file.read(min(_PAGE, size - offset))
        if piece and piece != _ZEROS[: len(piece)]:
            yield offset, piece.ljust(-(-len(piece) // 512) * 512, b"\0")


def _vhd_shape(file: IO[bytes]) -> tuple[int, bytes]:
    """The size of the disk inside, and the footer of a fixed VHD: the file's own, or a new one for a raw image."""
    size = file.seek(0, os.SEEK_END)
    if size >= _FOOTER:
        file.seek(size - _FOOTER)
        footer = file.read(_FOOTER)
        if footer.startswith(b"conectix"):
            if struct.unpack_from(">I", footer, 60)[0] != 2 or (size - _FOOTER) % _MIB:
                raise CpiError("the image is no fixed VHD of whole MiB", remedy="convert it with subformat=fixed")
            return size - _FOOTER, footer
    whole = max(-(-size // _MIB), 1) * _MIB
    return whole, _footer(whole)


def _footer(size: int) -> bytes:
    """By Microsoft's specification of virtual hard disks."""
    sectors = min(size // 512, 65535 * 16 * 255)
    per_track = 255 if sectors >= 65535 * 16 * 63 else 31 if sectors > 1024 * 16 * 17 else 17
    heads = 16 if per_track > 17 else min(max(math.ceil(sectors // 17 / 1024), 4), 16)
    cylinders = min(sectors // per_track // heads, 65535)
    made = struct.pack(
        ">8sIIQI4sI4sQQHBBI", b"conectix", 2, 0x10000, 2**64 - 1, 0, b"cotr", 0x10000, b"Wi2k",
        size, size, cylinders, heads, per_track, 2,
    )  # fmt: skip
    rest = b"\0" * 4 + bytes(16) + b"\0"
    total = ~sum(made + rest) & 0xFFFFFFFF
    return (made + struct.pack(">I", total) + rest[4:]).ljust(_FOOTER, b"\0")
