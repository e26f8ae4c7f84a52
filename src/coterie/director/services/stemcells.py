"""The stemcell catalogue: rows and image files are added and deleted together.

An uploaded tarball is streamed to disk, opened there, checked, and its image stored. Memory use stays constant.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fastapi.concurrency import run_in_threadpool
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from coterie.director.context import AppContext
from coterie.errors import Conflict, CoterieError, Refused, UsageError
from coterie.ledger.rows import stemcells
from coterie.ledger.views.stemcells import one


def add(context: AppContext, image: StoredImage) -> None:
    """Add a stored image to the catalogue; if that is refused, delete the image."""
    try:
        with context.ledger.write() as tx:
            row = (image.name, image.version, image.file, image.sha256, image.cloud_properties, image.formats)
            stemcells.add(tx, *row, image.os)
    except Conflict:
        with context.ledger.read() as tx:
            present = stemcells.get(tx, image.name, image.version)
        if present is None or present.image != image.file:
            (context.state_folder.stemcells / image.file).unlink(missing_ok=True)
        raise


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
    # The row goes first: a file without a row wastes space, a row without its file would be wrong.
    if row is not None and row.image is not None:
        (context.state_folder.stemcells / row.image).unlink(missing_ok=True)


_CHUNK = 2**20
_LARGEST_MF = 2**20
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
        with tarfile.open(tarball, "r|*") as archive:
            manifest, digests = _parts(archive, folder / "image")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise _bad("it is not a readable tar archive", str(error)) from error
    if manifest is None:
        raise _bad("it holds no stemcell.MF")
    if digests is None:
        raise _bad("it holds no image")
    return _keep(_read_manifest(manifest), digests, folder / "image", store)


def _parts(archive: tarfile.TarFile, image: Path) -> tuple[bytes | None, dict[str, str] | None]:
    manifest: bytes | None = None
    digests: dict[str, str] | None = None
    for member in archive:
        source = archive.extractfile(member) if member.isfile() else None
        name = member.name.removeprefix("./")
        if source is None:
            continue
        if name == "stemcell.MF":
            manifest = source.read(_LARGEST_MF)
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
    try:
        value = YAML(typ="safe", pure=True).load(raw.decode("utf-8"))
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _bad("its stemcell.MF is not YAML", str(error)) from error
    if not isinstance(value, dict):
        raise _bad("its stemcell.MF is no mapping")
    for field in ("name", "version"):
        if not _NAME.fullmatch(str(value.get(field, ""))):
            raise _bad(f"{field} in its stemcell.MF is missing or has strange characters")
    if not _NAME.fullmatch(str(value.get("operating_system") or "none")):
        raise _bad("operating_system in its stemcell.MF has strange characters")
    return value


def _keep(manifest: dict[str, Any], digests: dict[str, str], image: Path, store: Path) -> StoredImage:
    kind, _, expected = str(manifest.get("sha1") or "").rpartition(":")
    if expected and digests.get(kind or "sha1") not in (None, expected):
        raise _bad("the image does not have the checksum in stemcell.MF", f"it should be {expected}")
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


def _bad(what: str, why: str = "") -> UsageError:
    return UsageError(
        f"this is no stemcell: {what}",
        why=why,
        remedy="upload a BOSH stemcell tarball: a tar.gz with stemcell.MF and image; a light one is sent as JSON",
    )
