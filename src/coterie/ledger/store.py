"""Opens the ledger: one code path for SQLite and PostgreSQL, transactions, and the database's clock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from coterie.errors import LedgerUnusable, UsageError
from coterie.ledger import schema
from coterie.ledger.bell import Bell

if TYPE_CHECKING:
    from coterie.ledger.wakeups import Wakeups

Tx = sa.Connection

# A process that is paused inside a transaction must not block the others for longer than a lease.
_IDLE_IN_TRANSACTION_MS = 5_000
# Connections that a burst of work has opened go again: the last one returned is the first one used, the others idle.
_IDLE_MS = 60_000
_SESSION = f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_MS} -c idle_session_timeout={_IDLE_MS}"
# A network that swallows packets ends a connection within a minute, not after hours: a commit would hang that long.
_KEEPALIVE = {"keepalives_idle": 20, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 45_000}
_TRUSTED_S = 1.0  # a connection that rested for longer may have been ended by the other side
_POLL_S = 1.0
_TRUST_S = 10.0  # a wake-up that got lost costs no more than this


class now(FunctionElement[float]):
    """Seconds since 1970 by the database's own clock, so that no two machines have to agree."""

    inherit_cache = True
    type = sa.Double()


_NOW = sa.select(now())


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: Any, **kw: Any) -> str:
    return "cast(extract(epoch from clock_timestamp()) as double precision)"


def time(tx: Tx) -> float:
    """The database's time now."""
    return tx.execute(_NOW).scalar_one()


def is_outage(error: BaseException) -> bool:
    """Whether the database did not answer (restarted, unreachable, cut off): the same can be tried again."""
    if isinstance(error, sa.exc.TimeoutError | sa.exc.OperationalError | sa.exc.InterfaceError):
        return True
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


class Ledger:
    """A database and its two kinds of transaction. Nothing slow may happen inside either."""

    def __init__(self, reader: sa.Engine, writer: sa.Engine) -> None:
        self._reader = reader
        self._writer = writer
        # SQLite's lock is not fair: writers of one process queue here instead of spinning there.
        self._turn = threading.Lock() if writer.dialect.name == "sqlite" else None
        self.written = Bell()  # rung by every write that this process makes or hears of
        self.asked = Bell()  # rung when there may be a question about a cloud
        self._wakeups: Wakeups | None = None

    @staticmethod
    def open(url: str) -> Ledger:
        """Connect, and bring an old schema up to date; a newer one is refused (LedgerTooNew)."""
        ledger = _connected(url)
        with _readable(url):
            schema.upgrade(ledger._writer)
        if ledger.dialect == "postgresql":
            ledger._listen(_plain(url))
        return ledger

    @staticmethod
    def examine(url: str) -> None:
        """Raises what `open` would raise about the database; upgrades nothing."""
        ledger = _connected(url)
        try:
            with _readable(url):
                schema.require_known(ledger._reader)
        finally:
            ledger.close()

    @property
    def dialect(self) -> str:
        return self._writer.dialect.name

    @contextmanager
    def read(self) -> Iterator[Tx]:
        with self._reader.begin() as tx:
            yield tx

    @contextmanager
    def write(self) -> Iterator[Tx]:
        with self._turn or nullcontext(), self._writer.begin() as tx:
            yield tx
        self.written.ring()
        if self._wakeups is not None:
            self._wakeups.tell()

    @contextmanager
    def write_unheard(self) -> Iterator[Tx]:
        """For what nobody waits for: heartbeats wake nobody, or an idle fleet would never rest."""
        with self._turn or nullcontext(), self._writer.begin() as tx:
            yield tx

    def ask(self) -> None:
        """Wake whoever answers questions about clouds, here and elsewhere."""
        self.asked.ring()
        if self._wakeups is not None:
            self._wakeups.tell("q")

    @property
    def poll_s(self) -> float:
        """How long one may rest on being woken: long where other processes wake us, short where they cannot."""
        return _TRUST_S if self._wakeups is not None and self._wakeups.listening else _POLL_S

    def _listen(self, url: str) -> None:
        from coterie.ledger.wakeups import Wakeups  # SQLite needs no client library

        self._wakeups = Wakeups(url, self._heard)

    def _heard(self, asked: bool) -> None:
        """Another process has written; most writes are no questions."""
        self.written.ring()
        if asked:
            self.asked.ring()

    def close(self) -> None:
        if self._wakeups is not None:
            self._wakeups.close()
        self._reader.dispose()
        self._writer.dispose()


def _connected(url: str) -> Ledger:
    return _sqlite(url) if url.startswith("sqlite") else _postgresql(url)


@contextmanager
def _readable(url: str) -> Iterator[None]:
    """What SQLite says of its file is told with the file's name and what to do; a server's words pass."""
    try:
        yield
    except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
        cause = getattr(error, "orig", None) or error
        if not isinstance(cause, sqlite3.DatabaseError):
            raise
        file = url.removeprefix("sqlite:///")
        if isinstance(cause, sqlite3.OperationalError):
            raise LedgerUnusable(
                f"the ledger {file} cannot be opened",
                why=str(cause),
                remedy="see that the file and its folder can be read and written by you, and that the disk has room",
            ) from error
        raise LedgerUnusable(
            f"the ledger {file} is damaged",
            why=str(cause),
            remedy="restore it from a backup; or move it away and begin with an empty one, which knows nothing of what "
            "the clouds hold",
        ) from error


def _sqlite(url: str) -> Ledger:
    # isolation_level None: we say BEGIN ourselves, IMMEDIATE for writers, so that none fails half-way.
    options: dict[str, Any] = {
        "hide_parameters": True,  # manifests have secrets, and errors are logged
        "connect_args": {"isolation_level": None, "timeout": 60, "check_same_thread": False},
    }
    reader = sa.create_engine(url, pool_size=8, max_overflow=64, poolclass=sa.QueuePool, **options)
    writer = sa.create_engine(url, pool_size=1, max_overflow=0, poolclass=sa.QueuePool, **options)
    for engine, begin in ((reader, "BEGIN"), (writer, "BEGIN IMMEDIATE")):
        sa.event.listen(engine, "connect", _tune_sqlite)
        sa.event.listen(engine, "begin", lambda tx, begin=begin: tx.exec_driver_sql(begin))
    return Ledger(reader, writer)


def _tune_sqlite(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")  # an intent must outlive a power cut too
    cursor.close()


def _postgresql(url: str) -> Ledger:
    if not url.startswith("postgresql"):
        raise UsageError(
            "the database URL names neither SQLite nor PostgreSQL",
            remedy="use sqlite:///PATH or postgresql://USER@HOST/NAME",
        )
    from coterie.ledger.one_by_one import OneByOne  # SQLite needs no client library

    engine = sa.create_engine(
        _plain(url).replace("postgresql://", "postgresql+psycopg://", 1),
        pool_size=8,
        max_overflow=64,
        pool_use_lifo=True,
        hide_parameters=True,
        connect_args={"options": _SESSION, "cursor_factory": OneByOne, **_KEEPALIVE},
    )
    _distrust_rested(engine)
    return Ledger(engine, engine)


def _distrust_rested(engine: sa.Engine) -> None:
    """A connection that rested for long is asked whether it is still there. Asking each time would cost a round trip
    for every transaction, and prove no more: whoever uses it hears of its end and tries again anyhow."""

    def note_rest(connection: Any, record: Any) -> None:
        record.info["rests_since"] = monotonic()

    def make_sure(connection: Any, record: Any, proxy: Any) -> None:
        if monotonic() - record.info.get("rests_since", monotonic()) < _TRUSTED_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error

    sa.event.listen(engine, "checkin", note_rest)
    sa.event.listen(engine, "checkout", make_sure)


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://", 1)
