"""The local ledger of this program: opened on first need, shared by many processes.

No import at the top is heavy: a call that changes nothing must not pay for a database.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from coterie.cpi.contract import Cpi, CpiError, Json, Kind, Mark, Part, PartRecords

if TYPE_CHECKING:
    from coterie.ledger.file import FileLedger
    from coterie.ledger.store import Ledger


class LocalLedger:
    """Nothing is opened before it is read. `ledger`: for the work of a call. `full_ledger`: the same by SQLAlchemy, for
    cleanup and coordinators, whose statements are no texts. `location`: the path of a file, or a URL of PostgreSQL."""

    def __init__(self, location: str, lease_s: float) -> None:
        self.location = location
        self.lease_s = lease_s
        self.coordinator = _LazyCoordinator(self)
        self._ledger: FileLedger | Ledger | None = None
        self._full_ledger: Ledger | None = None
        self._lock = threading.Lock()

    @property
    def ledger(self) -> FileLedger | Ledger:
        with self._lock:
            if self._ledger is None:
                self._ledger = _open(self.location)
            return self._ledger

    @property
    def full_ledger(self) -> Ledger:
        from coterie.ledger.store import Ledger

        begun = self.ledger  # which makes a new file as it must be
        if isinstance(begun, Ledger):
            return begun
        with self._lock:
            if self._full_ledger is None:
                self._full_ledger = _open_full(f"sqlite:///{begun.path}")
            return self._full_ledger

    def part_records(self, cloud: str) -> PartRecords:
        return _LazyPartRecords(self, cloud)

    def open_existing(self) -> Ledger:
        """The ledger, if there is one already: a call that only reads must not create one."""
        if not self.location.startswith("postgresql"):
            _require_file(self.location.removeprefix("sqlite:///"))
        return self.full_ledger

    def close(self) -> None:
        for opened in (self._ledger, self._full_ledger):
            if opened is not None:
                opened.close()


class _LazyCoordinator:
    """The coordinator of single-writer domains, opened by the first change; most drivers need none."""

    def __init__(self, local_ledger: LocalLedger) -> None:
        self._local_ledger = local_ledger
        self._lock = threading.Lock()
        self._real: Any = None

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        from coterie.bosh.core.call_context import new_holder
        from coterie.engine.coordinator import LedgerCoordinator

        with self._lock:
            if self._real is None:
                self._real = LedgerCoordinator(
                    self._local_ledger.full_ledger, new_holder(), lease_s=self._local_ledger.lease_s
                )
        outcome: Json = self._real.submit(cpi, domain, change)
        return outcome

    def hold(self, domain: str) -> None:
        self._real.hold(domain)  # a driver writes only when a change was submitted


class _LazyPartRecords:
    """Records of parts, opened by the first part."""

    def __init__(self, local_ledger: LocalLedger, cloud: str) -> None:
        self._local_ledger = local_ledger
        self._cloud = cloud

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        self._real().intend(mark, kind, name)

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        self._real().record(mark, kind, name, cid)

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        self._real().withdraw(mark, kind, name)

    def list_of(self, mark: Mark) -> list[Part]:
        return self._real().list_of(mark)

    def _real(self) -> PartRecords:
        from coterie.engine.part_records import LedgerPartRecords

        return LedgerPartRecords(lambda: self._local_ledger.ledger, self._cloud)


def _open(location: str) -> FileLedger | Ledger:
    if location.startswith("postgresql"):
        return _open_full(location)
    try:
        return _open_file(location.removeprefix("sqlite:///"))
    except OSError as error:
        raise _unusable(location, error) from None


def _open_full(location: str) -> Ledger:
    from coterie.ledger.errors import DatabaseRefusal
    from coterie.ledger.store import Ledger

    try:
        return Ledger.open(location)
    except DatabaseRefusal as error:
        raise _unusable(location, error) from None


def _require_file(path: str) -> None:
    from pathlib import Path

    if not Path(path).exists():
        raise CpiError(
            f"there is no ledger {path}",
            why="nothing can prove that what is in the cloud is unused",
            remedy="name with `ledger:` the one that this Director's calls have written; nothing was deleted",
        )


def _open_file(path: str) -> FileLedger:
    import fcntl
    import os
    from pathlib import Path

    from coterie.ledger.file import FileLedger

    file = Path(path)
    _make_folder(file.parent)
    lock = file.with_name(file.name + ".new")
    _make_private(file, lock)
    if file.exists() and file.stat().st_size:
        lock.unlink(missing_ok=True)  # a process that waits for it finds a ledger that was begun
        return FileLedger.open(str(file))
    # The first opening changes the journal's mode, which SQLite refuses while another process does the same.
    with os.fdopen(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        # SQLite gives -wal and -shm the permissions of the file that it opens, so it must be private before.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        opened = FileLedger.open(str(file))
        lock.unlink(missing_ok=True)
        return opened


def _make_private(file: Any, lock: Any) -> None:
    """An earlier release left some of these files readable to every user."""
    import os

    for one in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm"), lock):
        with contextlib.suppress(FileNotFoundError):
            facts = one.stat()
            if facts.st_mode & 0o077 and facts.st_uid == os.geteuid():
                one.chmod(0o600)


def _make_folder(folder: Any) -> None:
    # Only the last step of the path: a store that is not mounted must not be mistaken for an empty one.
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)


def _unusable(location: str, error: Exception) -> CpiError:
    from coterie.redact import hide_credentials

    reason = error.strerror if isinstance(error, OSError) else str(getattr(error, "orig", "") or "it cannot be opened")
    return CpiError(
        f"the ledger {hide_credentials(location)} cannot be used",
        why=hide_credentials(str(reason)).splitlines()[0],
        remedy="set `ledger:` in the configuration of coterie-cpi to a file in a folder that exists and that this"
        " user may write, or to a postgresql:// URL; nothing was done in the cloud",
    )
