"""The state folder of a Director: its files, and the lock that admits one Director at a time. Standard library only."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from coterie import __version__
from coterie.errors import UsageError


@dataclass(frozen=True, slots=True)
class StateFolder:
    path: Path

    @property
    def socket(self) -> Path:
        return self.path / "director.sock"

    @property
    def lock(self) -> Path:
        return self.path / "director.lock"

    @property
    def start_lock(self) -> Path:
        """Held by a client while it starts a Director, so that ten clients start one."""
        return self.path / "start.lock"

    @property
    def log(self) -> Path:
        return self.path / "director.log"

    @property
    def start_log(self) -> Path:
        """Output of the Director before its log was open; the reason of a failed start is here."""
        return self.path / "start.log"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.db"

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def signing_key(self) -> Path:
        """The private key that the Director signs steps and questions with."""
        return self.path / "director.key"

    @property
    def stemcells(self) -> Path:
        return self.path / "stemcells"

    @property
    def database(self) -> str:
        return f"sqlite:///{self.ledger}"

    def prepare(self) -> None:
        """Create the folder, private to its owner; refuse one that belongs to another user."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = self.path.stat()
            if facts.st_uid != os.geteuid():
                raise UsageError(
                    f"the state folder {self.path} belongs to another user", remedy="set COTERIE_STATE to your own"
                )
            if facts.st_mode & 0o077:
                self.path.chmod(0o700)
        except OSError as error:
            raise UsageError(
                f"cannot use the state folder {self.path}",
                why=error.strerror or type(error).__name__,
                remedy="set COTERIE_STATE to a folder that you may write to",
            ) from error


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

    def write_holder(self, *, parent: bool = False) -> None:
        """Write our process into the file. Only the holder writes, so what is read while it is locked is correct."""
        if self._handle is None:
            raise RuntimeError("the lock is not held")
        note = json.dumps({"pid": os.getpid(), "version": __version__, "parent": parent}).encode()
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, note, 0)

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_holder(path: Path) -> Holder | None:
    """The process that holds the lock now; None when none does, or when it has not written its name yet."""
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
