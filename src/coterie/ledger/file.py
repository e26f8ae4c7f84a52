"""A SQLite ledger through the standard library alone, for `coterie-cpi`, which opens it anew in every call: importing
SQLAlchemy costs more than all the rest of such a call. What it executes are the texts of `statements`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

HEAD = "0020"  # the schema of this release
_TIMEOUT_S = 60.0  # another process may write for long
_KEPT = 8  # connections that stay open after use


class FileTx:
    """One transaction; `statements.run` works on it as on one of `store`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, text: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
        return self._connection.execute(text, values)

    def run_many(self, text: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self._connection.executemany(text, rows)


class FileLedger:
    """The transactions of `store.Ledger` that callers without a Director of ours need."""

    failures = sqlite3.Error  # of the database, when it is used

    def __init__(self, path: str) -> None:
        self.path = path
        # SQLite's lock is not fair: writers of one process queue here instead of spinning there.
        self._write_lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []

    @staticmethod
    def open(path: str) -> FileLedger:
        """Also brings an old schema up to date, as `store.Ledger` does; a newer one is refused (LedgerTooNew)."""
        ledger = FileLedger(path)
        if ledger._schema() != HEAD:
            ledger.close()
            from coterie.ledger.store import Ledger

            Ledger.open(f"sqlite:///{path}").close()
        return ledger

    @contextmanager
    def read(self) -> Iterator[FileTx]:
        with self._transaction("BEGIN") as tx:
            yield tx

    @contextmanager
    def write(self) -> Iterator[FileTx]:
        with self._write_lock, self._transaction("BEGIN IMMEDIATE") as tx:
            yield tx

    @contextmanager
    def write_silently(self) -> Iterator[FileTx]:
        """The same here, where no thread waits for what others write."""
        with self._write_lock, self._transaction("BEGIN IMMEDIATE") as tx:
            yield tx

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[FileTx]:
        connection = self._take()
        try:
            connection.execute(begin)
            yield FileTx(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()  # which ends its transaction, however far that came
            raise
        if len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        # isolation_level None: BEGIN is sent here, IMMEDIATE for writers, so that none fails half-way.
        connection = sqlite3.connect(self.path, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # an intent must outlive a power cut too
        return connection

    def _schema(self) -> str | None:
        """None also where the file cannot be read: `store.Ledger` says why, and what to do."""
        try:
            with self.read() as tx:
                found = tx.run("SELECT version_num FROM alembic_version", {}).fetchone()
        except sqlite3.Error:
            return None
        return str(found[0]) if found else None
