"""Image files of stemcells in the state folder of a service: stored by a Director, fetched by conductors, deleted when
they are of no use. On PostgreSQL the database has every image, and the files are copies; on SQLite they are all."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from coterie.errors import CoterieError, NotFound
from coterie.ledger.rows import images, stemcells
from coterie.ledger.rows.stemcells import StemcellRow
from coterie.ledger.store import Ledger

log = logging.getLogger(__name__)

_SLICE_S = 10.0  # a step commits how far it has come, and can be cancelled
_ABANDONED_S = 86400.0
_UNUSED_S = 7 * 86400.0
_PART = ".part"


@dataclass(frozen=True, slots=True)
class Partial:
    """A fetch that is not finished."""

    done: int
    size: int
    by_another: bool = False  # another step of this machine fetches it

    def __str__(self) -> str:
        return f"fetched {self.done >> 20} of {self.size >> 20} MiB of the image from the database"


class Images:
    """The folder `stemcells` of one service. Several processes may share it."""

    def __init__(self, ledger: Ledger, folder: Path, slice_s: float = _SLICE_S) -> None:
        self._ledger = ledger
        self._folder = folder
        self._slice_s = slice_s
        self._checked: dict[Path, tuple[int, int, int]] = {}  # files whose content was right, by what would change

    def find(self, stemcell: StemcellRow) -> Path | None:
        """The file, if it is here. A copy of what the database has must have the right content."""
        path = self._path(stemcell)
        with _explain(self._folder):
            if not path.is_file():
                return None
            if stemcell.image_size is None:
                return path
            if self._checked.get(path) != _version(path) and _digest(path) != stemcell.sha256:
                return None
            with suppress(PermissionError):  # of a shared folder
                os.utime(path)  # in use
            self._checked[path] = _version(path)
            return path

    def fetch(self, stemcell: StemcellRow) -> Partial | None:
        """Go on fetching it for some seconds; None when it is here. What is here already is not fetched again."""
        if stemcell.image_size is None:
            raise _nowhere(stemcell)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(stemcell)
        with _explain(self._folder), _lock(path.with_name(path.name + _PART)) as part:
            if part is None:
                return Partial(0, stemcell.image_size, by_another=True)
            done = self._append(part, stemcell, stemcell.image_size)
            if done < stemcell.image_size:
                return Partial(done, stemcell.image_size)
            self._keep(Path(part.name), path, stemcell)
        return None

    def publish(self, path: Path, sha256: str) -> int:
        """Put the file into the database, chunk by chunk; its size. Repeating it is harmless."""
        size = 0
        with path.open("rb") as file:
            for n, data in enumerate(iter(lambda: file.read(images.CHUNK), b"")):
                with self._ledger.write_silently() as tx:
                    images.put_chunk(tx, sha256, n, data)
                size += len(data)
        return size

    def publish_missing(self) -> None:
        """Images that an earlier release took in are in the folder of its Director only."""
        with self._ledger.read() as tx:
            missing = [row for row in stemcells.catalogue(tx) if row.image and row.image_size is None]
        for row in missing:
            path = self.find(row)
            if path is None or row.sha256 is None or _digest(path) != row.sha256:
                continue
            size = self.publish(path, row.sha256)
            with self._ledger.write_silently() as tx:
                images.record_whole(tx, row.sha256, size)
            log.info("stemcell %s is in the database now: conductors fetch it from there", row.ref)

    def clean(self) -> None:
        """Delete what was cut off, what left the catalogue, and copies that no step used for a week."""
        with self._ledger.read() as tx:
            listed = {row.image: row for row in stemcells.catalogue(tx) if row.image}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            row = listed.get(path.name)
            if row is None and _age(path) > _ABANDONED_S:
                _delete(path)
            if row is not None and row.image_size is not None and _age(path) > _UNUSED_S:
                _delete(path)

    def _path(self, stemcell: StemcellRow) -> Path:
        return self._folder / (stemcell.image or "")

    def _append(self, part: IO[bytes], stemcell: StemcellRow, size: int) -> int:
        """The length of the file afterwards. Only whole chunks count: a kill may have cut the last one off."""
        give_up = time.monotonic() + self._slice_s
        done = min(part.seek(0, os.SEEK_END) // images.CHUNK * images.CHUNK, size)
        part.seek(done)
        part.truncate()
        while done < size:
            with self._ledger.read() as tx:
                data = images.read_chunk(tx, stemcell.sha256 or "", done // images.CHUNK)
            if not data:
                raise _damaged(stemcell, f"the database has no bytes from {done} on")
            part.write(data)
            done += len(data)
            if time.monotonic() >= give_up:
                break
        part.flush()
        os.fsync(part.fileno())
        return done

    def _keep(self, part: Path, path: Path, stemcell: StemcellRow) -> None:
        if _digest(part) != stemcell.sha256:
            part.unlink()
            raise _damaged(stemcell, "what was fetched from the database does not have its SHA-256")
        self._checked[path] = _version(part)
        part.rename(path)


@contextmanager
def _lock(part: Path) -> Iterator[IO[bytes] | None]:
    """The file, for this step alone; None while another one has it."""
    with part.open("ab+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        is_current = part.exists() and part.stat().st_ino == os.fstat(file.fileno()).st_ino
        yield file if is_current else None  # else the one that had it has finished meanwhile


@contextmanager
def _explain(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CoterieError(
            f"the image of a stemcell cannot be kept in {folder}",
            why=error.strerror or type(error).__name__,
            remedy="make room there, and let the service write to it; then deploy again",
        ) from error


def _version(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _nowhere(stemcell: StemcellRow) -> NotFound:
    return NotFound(
        f"the image of stemcell {stemcell.ref} is neither on this machine nor in the database",
        why="it was uploaded to a Director of an earlier release, or its file was deleted or changed",
        remedy="start the Director that took it in, with its state folder, or upload it again: "
        "coterie stemcells upload FILE; then deploy again",
    )


def _damaged(stemcell: StemcellRow, why: str) -> CoterieError:
    return CoterieError(
        f"the image of stemcell {stemcell.ref} could not be fetched",
        why=why,
        remedy="deploy again; if it fails again, upload the stemcell again: coterie stemcells upload FILE",
    )
