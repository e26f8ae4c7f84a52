"""The state file: how it comes into being, its connections, and transactions. No table is named here."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from coterie.sandbox.errors import SandboxError, StateUnreadable, Unavailable

_BUSY_S = 60.0
_NOT_TAKEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_stores: weakref.WeakSet[Store] = weakref.WeakSet()
# SQLite must not close, in a child process, what its parent opened: such connections are kept here, unused.
_inherited: list[object] = []


class Store:
    """One state file as seen by this process. Readers never wait; writers queue, first within this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inode = path.stat().st_ino
        self._turn = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._mine = threading.local()
        _stores.add(self)

    def reader(self) -> sqlite3.Connection:
        """The calling thread's own."""
        found: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if found is None:
            found = self._mine.connection = _connect(self.path)
        return found

    def writer(self) -> sqlite3.Connection:
        """One connection for all threads, under a lock: SQLite drops its pages when another connection has written."""
        if self._writer is None:
            self._writer = _connect(self.path)
        return self._writer

    def reading(self) -> Transaction:
        """One consistent picture, however many statements it takes to see it."""
        return Transaction(self, "BEGIN", self.reader)

    def writing(self) -> Transaction:
        """The only writer of the file until the block ends; an exception undoes everything in it."""
        # SQLite's own queue polls and is unfair, so threads of one process line up before they enter it
        return Transaction(self, "BEGIN IMMEDIATE", self.writer, self._turn)

    def close(self) -> None:
        """Close the writer's and the calling thread's connection; the next call opens others."""
        with self._turn:
            self._close()

    def before_fork(self) -> None:
        """No thread may be in the middle of a write: the child would wait for ever for its end."""
        self._turn.acquire()
        self._close()

    def after_fork_in_parent(self) -> None:
        self._turn.release()

    def after_fork_in_child(self) -> None:
        _inherited.append(self._mine)
        self._mine = threading.local()
        self._turn = threading.Lock()

    def _close(self) -> None:
        for connection in (getattr(self._mine, "connection", None), self._writer):
            if connection is not None:
                connection.close()
        self._mine.connection = self._writer = None


class Transaction:
    """A block that is done wholly or not at all. A class, since a generator would cost every call twice as much."""

    __slots__ = ("_begin", "_connect", "_connection", "_lock", "_store")

    def __init__(
        self, store: Store, begin: str, connect: Callable[[], sqlite3.Connection], lock: threading.Lock | None = None
    ) -> None:
        self._store, self._begin, self._connect, self._lock = store, begin, connect, lock

    def __enter__(self) -> sqlite3.Connection:
        if self._lock:
            self._lock.acquire()
        try:
            self._connection = self._connect()
            self._connection.execute(self._begin)
        except BaseException as error:
            self._leave(error)
            raise
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._connection.execute("COMMIT" if error is None else "ROLLBACK")
        except sqlite3.Error as failure:
            if self._connection.in_transaction:  # a full disk, say: the next writer must not find it open
                self._connection.execute("ROLLBACK")
            self._leave(failure)
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        if self._lock:
            self._lock.release()
            self._lock = None
        if isinstance(error, sqlite3.Error):
            raise _refusal(error, self._store.path) from error


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file complete and in one step: of many processes that try at once, one wins and the others use it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    import tempfile  # slow to import, and a cloud is made once

    handle, draft_name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    draft = Path(draft_name)
    try:
        connection = _connect(draft)
        connection.execute("PRAGMA page_size=2048")  # a call touches many trees a little: small pages halve its cost
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        fill(connection)
        connection.execute("COMMIT")
        connection.close()
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        cached_statements=256,
        check_same_thread=False,  # the writer's serves one thread after the other
    )
    connection.execute("PRAGMA synchronous=OFF")  # outlives a killed process; a power cut may take a simulation
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    return connection


def _refusal(error: sqlite3.Error, path: Path) -> SandboxError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_TAKEN:
        return Unavailable(
            "the sandbox is busy", why=f"others wrote to {path} for {_BUSY_S:.0f} s", remedy="try again with less load"
        )
    return StateUnreadable(
        f"the sandbox state {path} cannot be used",
        why=str(error),
        remedy="check that the path is a sandbox state file on a disk with free space, or use another path",
    )


def _each(act: Callable[[Store], None]) -> Callable[[], None]:
    def act_on_all() -> None:
        for store in list(_stores):
            act(store)

    return act_on_all


os.register_at_fork(
    before=_each(Store.before_fork),
    after_in_parent=_each(Store.after_fork_in_parent),
    after_in_child=_each(Store.after_fork_in_child),
)
