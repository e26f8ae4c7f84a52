"""One Director per state folder: a lock that ends with its holder, and a note of who that is. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from coterie import __version__


@dataclass(frozen=True, slots=True)
class Holder:
    pid: int
    version: str
    parent: bool = False  # ends with the command that started it


class Lock:
    """An exclusive lock on a file. The kernel frees it when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def take(self, *, wait: bool = False) -> bool:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def sign(self, *, parent: bool = False) -> None:
        """Say who holds it. Only the holder writes, so what is read while it is locked is true."""
        if self._handle is None:
            raise RuntimeError("only the holder signs a lock")
        note = json.dumps({"pid": os.getpid(), "version": __version__, "parent": parent}).encode()
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, note, 0)

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def holder(path: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does or when it is not signed yet."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(os.pread(handle, 4096, 0))
    finally:
        os.close(handle)
    return None


def _read(note: bytes) -> Holder | None:
    try:
        return Holder(**json.loads(note))
    except (ValueError, TypeError):
        return None
