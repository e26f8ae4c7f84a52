"""The shelf: published images as files in one folder, with the secret that signs their links. No network here."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from coterie.errors import CoterieError, UsageError

_CHUNK = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_DRAFT = ".draft-"


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    size: int
    sha256: str


class Shelf:
    """`ttl_s`: how long an image stays, and how long its link is good, unless it is removed before."""

    def __init__(self, folder: str, ttl_s: float) -> None:
        self.folder = Path(folder)
        self.ttl_s = ttl_s
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.key = _key(self.folder / ".key")
        except OSError as error:
            raise CoterieError(
                f"the folder of published images, {folder}, cannot be used",
                why=str(error.strerror),
                remedy="set publish_server.folder to a folder that this user may write",
            ) from None

    def put(self, name: str, source: Source, size: int, sha256: str | None) -> Image:
        """Take `size` bytes in, piece by piece; a body that is cut short or altered leaves nothing."""
        target = self.folder / require_name(name)
        handle, draft = tempfile.mkstemp(prefix=_DRAFT, dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                digest = _copy(source, file, size)
            if sha256 and digest != sha256.lower():
                raise UsageError(f"{name} arrived with another checksum", why=digest, remedy="send it again")
            Path(draft).replace(target)
        finally:
            Path(draft).unlink(missing_ok=True)
        return Image(name, size, digest)

    def find(self, name: str) -> Path | None:
        path = self.folder / name
        return path if _NAME.match(name) and path.is_file() else None

    def remove(self, name: str) -> bool:
        """Delete an image that the cloud has fetched, or that is no longer needed."""
        path = self.find(name)
        if path is None:
            return False
        path.unlink(missing_ok=True)
        return True

    def sweep(self) -> list[str]:
        """Delete images that were not fetched in time, and unfinished uploads; their names."""
        old = time.time() - self.ttl_s
        stale = [path for path in self.folder.iterdir() if path.name != ".key" and path.stat().st_mtime < old]
        for path in stale:
            path.unlink(missing_ok=True)
        return sorted(path.name for path in stale)


def require_name(name: str) -> str:
    if not _NAME.match(name):
        raise UsageError(
            f"an image cannot be named {name[:64]!r}", remedy="use letters, digits, dots, dashes and underscores"
        )
    return name


def _copy(source: Source, target: BinaryIO, size: int) -> str:
    digest, left = hashlib.sha256(), size
    while left:
        piece = source.read(min(_CHUNK, left))
        if not piece:
            raise UsageError(f"the body ended {left} bytes early", remedy="send it again")
        digest.update(piece)
        target.write(piece)
        left -= len(piece)
    return digest.hexdigest()


def _key(file: Path) -> bytes:
    """The same after a restart, so that links that were given out stay good."""
    if not file.exists():
        handle, draft = tempfile.mkstemp(prefix=_DRAFT, dir=file.parent)
        with os.fdopen(handle, "wb") as opened:
            opened.write(secrets.token_bytes(32))
        Path(draft).replace(file)
    return file.read_bytes()
