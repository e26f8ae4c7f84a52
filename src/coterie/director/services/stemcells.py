"""The stemcell catalogue: rows and image files are added and deleted together.

An uploaded tarball is streamed to disk, opened there, checked, and its image stored. Memory use stays constant,
and what it unpacks to is bounded by its own size.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fastapi.concurrency import run_in_threadpool

from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import dumps, loads
from coterie.director.context import AppContext
from coterie.engine.images import Images
from coterie.errors import Conflict, CoterieError, Refused, UsageError
from coterie.ledger.rows import images, stemcells
from coterie.ledger.views.stemcells import one
from coterie.manifest.tree import read as read_yaml


def add(context: AppContext, image: StoredImage) -> None:
    """Add a stored image to the catalogue; if that is refused, delete the image. Conductors on other machines fetch it
    from the database, which SQLite is not for."""
    shared = context.ledger.dialect == "postgresql"
    path = context.state_folder.stemcells / image.file
    try:
        _refuse_other_content(context, image)
        size = Images(context.ledger, path.parent).publish(path, image.sha256) if shared else 0
        with context.ledger.write() as tx:
            row = (image.name, image.version, image.file, image.sha256, image.cloud_properties, image.formats)
            stemcells.add(tx, *row, image.os)
            if shared and not images.record_whole(tx, image.sha256, size):
                raise Conflict(
                    f"stemcell {image.name}/{image.version} was deleted while it was uploaded", remedy="upload it again"
                )
    except Conflict:
        _forget_image(context, image)
        raise


def _refuse_other_content(context: AppContext, image: StoredImage) -> None:
    """Before hundreds of megabytes are written for nothing."""
    with context.ledger.read() as tx:
        present = stemcells.get(tx, image.name, image.version)
    if present is not None:
        stemcells.refuse_other_content(present, image.sha256, image.cloud_properties)


def _forget_image(context: AppContext, image: StoredImage) -> None:
    with context.ledger.write_silently() as tx:
        present = stemcells.get(tx, image.name, image.version)
        images.forget_unused(tx, image.sha256)
    if present is None or present.image != image.file:
        (context.state_folder.stemcells / image.file).unlink(missing_ok=True)


def add_light(
    context: AppContext, name: str, version: str, os: str | None, cloud_properties: dict[str, Any], formats: list[str]
) -> None:
    with context.ledger.write() as tx:
        stemcells.add(tx, name, version, None, None, cloud_properties, formats, os)


def delete(context: AppContext, name: str, version: str) -> None:
    """Refused while a cloud holds an image of it: a deployment may still need it for another VM."""
    with context.ledger.write() as tx:
        held = one(tx, name, version)["clouds"]
        if held:
            raise Refused(
                f"stemcell {name}/{version} is kept",
                why=f"clouds hold an image of it: {', '.join(held)}",
                remedy="move the deployments that use it to another version first",
            )
        row = stemcells.get(tx, name, version)
        stemcells.delete(tx, name, version)
        if row is not None and row.sha256 is not None:
            images.forget_unused(tx, row.sha256)
    # The row goes first: a file without a row wastes space, a row without its file would be wrong.
    if row is not None and row.image is not None:
        (context.state_folder.stemcells / row.image).unlink(missing_ok=True)


_CHUNK = 2**20
_LARGEST_MF = 2**20
_LARGEST_HEADER = 2**16
_LARGEST_RATIO = 50
_ALWAYS_ALLOWED = 64 * 2**20
_MOST_MEMBERS = 10_000
_MOST_VALUES = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")


@dataclass(frozen=True, slots=True)
class StoredImage:
    """A stemcell whose image is in the store."""

    name: str
    version: str
    file: str  # name below the store
    sha256: str
    cloud_properties: dict[str, Any]
    formats: list[str]
    os: str | None


class Upload:
    """A received tarball, in a folder of its own below the store."""

    def __init__(self, folder: Path) -> None:
        self.tarball = folder / "tarball"
        self._sum = hashlib.sha256()

    async def fill(self, body: AsyncIterator[bytes]) -> None:
        with self.tarball.open("wb") as out:
            async for chunk in body:
                await run_in_threadpool(self._write, out, chunk)

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()

    def _write(self, out: IO[bytes], chunk: bytes) -> None:
        self._sum.update(chunk)
        _write(out, chunk)


@asynccontextmanager
async def receive(body: AsyncIterator[bytes], store: Path) -> AsyncIterator[Upload]:
    """Receive a tarball; it is deleted at the end of the context."""
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _scratch(store) as folder:
        made = Upload(folder)
        await made.fill(body)
        yield made


def store_image(upload: Upload, store: Path) -> StoredImage:
    return _unpack(upload.tarball, upload.tarball.parent, store)


@contextmanager
def _scratch(store: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="incoming-", dir=store))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(out: IO[bytes], chunk: bytes) -> None:
    try:
        out.write(chunk)
    except OSError as error:
        raise CoterieError(
            "the stemcell could not be stored", why=error.strerror or str(error), remedy="make room on the disk"
        ) from error


def _unpack(tarball: Path, folder: Path, store: Path) -> StoredImage:
    try:
        # One pass, front to back: no file is extracted under a name from the tarball.
        with _Bounded(tarball) as source, tarfile.open(fileobj=source, mode="r|", tarinfo=_Member) as archive:
            manifest, digests = _parts(archive, folder / "image")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _bad("it is not a readable tar archive", str(error)) from error
    if manifest is None:
        raise _bad("it holds no stemcell.MF")
    if digests is None:
        raise _bad("it holds no image")
    return _keep(_read_manifest(manifest), digests, folder / "image", store)


class _Bounded(io.RawIOBase):
    """The tarball, uncompressed; refused when it grows far beyond its size, as only an attack does."""

    def __init__(self, tarball: Path) -> None:
        self._file = tarball.open("rb")
        packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._source: IO[bytes] = gzip.GzipFile(fileobj=self._file) if packed else self._file  # type: ignore[assignment]  # it reads
        self._left = max(_ALWAYS_ALLOWED, tarball.stat().st_size * _LARGEST_RATIO)

    def read(self, size: int = -1) -> bytes:
        chunk = self._source.read(_CHUNK if size < 0 else size)
        self._left -= len(chunk)
        if self._left < 0:
            raise _bad(f"it unpacks to more than {_LARGEST_RATIO} times its size")
        return chunk

    def close(self) -> None:
        self._file.close()
        super().close()


class _Member(tarfile.TarInfo):
    """Refuses headers that the library would read into memory whole, and files with holes."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise _bad("it holds a sparse file")
        if self.type not in tarfile.REGULAR_TYPES and self.size > _LARGEST_HEADER:
            raise _bad("it holds a header that is too large")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # the library's hook for this
        return found

    def _refuse_sparse(self, *_: Any) -> None:
        raise _bad("it holds a sparse file")

    # The three forms of sparse files in pax headers.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _parts(archive: tarfile.TarFile, image: Path) -> tuple[bytes | None, dict[str, str] | None]:
    manifest: bytes | None = None
    digests: dict[str, str] | None = None
    for number, member in enumerate(archive):
        if number >= _MOST_MEMBERS:
            raise _bad(f"it holds more than {_MOST_MEMBERS} files")
        source = archive.extractfile(member) if member.isfile() else None
        name = member.name.removeprefix("./")
        if source is None:
            continue
        if name == "stemcell.MF":
            manifest = source.read(_LARGEST_MF + 1)
        if name == "image":
            digests = _copy(source, image)
    return manifest, digests


def _copy(source: IO[bytes], target: Path) -> dict[str, str]:
    sums = {"sha1": hashlib.sha1(usedforsecurity=False), "sha256": hashlib.sha256()}
    with target.open("wb") as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)
            for one in sums.values():
                one.update(chunk)
        out.flush()
        os.fsync(out.fileno())
    return {name: one.hexdigest() for name, one in sums.items()}


def _read_manifest(raw: bytes) -> dict[str, Any]:
    if len(raw) > _LARGEST_MF:
        raise _bad("its stemcell.MF is too large")
    try:
        reading = read_yaml(raw.decode("utf-8"))
        root = reading.root
        if root is None or reading.flaws:
            raise _bad("its stemcell.MF is not YAML that can be read", reading.flaws[0].what)
        if root.size > _MOST_VALUES:
            raise _bad(f"its stemcell.MF has more than {_MOST_VALUES} values")
        value = loads(dumps(root.plain()))  # as strict as JSON: it is shown as JSON
    except (UnicodeDecodeError, Mismatch) as error:
        raise _bad("its stemcell.MF cannot be read", str(error)) from error
    if not isinstance(value, dict):
        raise _bad("its stemcell.MF is no mapping")
    for field in ("name", "version"):
        if not _NAME.fullmatch(str(value.get(field, ""))):
            raise _bad(f"{field} in its stemcell.MF is missing or has strange characters")
    if not _NAME.fullmatch(str(value.get("operating_system") or "none")):
        raise _bad("operating_system in its stemcell.MF has strange characters")
    return value


def _keep(manifest: dict[str, Any], digests: dict[str, str], image: Path, store: Path) -> StoredImage:
    for given in filter(None, str(manifest.get("sha1") or "").split(";")):
        kind, _, expected = given.strip().rpartition(":")
        if _digest(kind or "sha1", digests, image) != expected.lower():
            raise _bad("the image does not have the checksum in stemcell.MF", f"it should be {given}")
    name, version = str(manifest["name"]), str(manifest["version"])
    kept = f"{name}-{version}-{digests['sha256'][:16]}"
    image.rename(store / kept)
    properties, formats = manifest.get("cloud_properties"), manifest.get("stemcell_formats")
    return StoredImage(
        name,
        version,
        kept,
        digests["sha256"],
        properties if isinstance(properties, dict) else {},
        [str(one) for one in formats] if isinstance(formats, list) else [],
        str(manifest["operating_system"]) if manifest.get("operating_system") else None,
    )


def _digest(kind: str, digests: dict[str, str], image: Path) -> str:
    if kind in digests:
        return digests[kind]
    if kind != "sha512":
        raise _bad(f"stemcell.MF has a checksum of the unknown kind {kind!r}", "sha1, sha256 and sha512 are known")
    with image.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _bad(what: str, why: str = "") -> UsageError:
    return UsageError(
        f"this is no stemcell: {what}",
        why=why,
        remedy="upload a BOSH stemcell tarball: a tar.gz with stemcell.MF and image; a light one is sent as JSON",
    )
