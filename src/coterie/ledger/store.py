"""Opens the ledger: one code path for SQLite and PostgreSQL, transactions, and the database's clock."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from coterie.errors import LedgerUnusable, UsageError
from coterie.ledger import schema
from coterie.ledger.errors import DatabaseError, is_standby

if TYPE_CHECKING:
    from coterie.ledger.postgresql import Wakeups
    from coterie.seal.signature import Signer

Tx = sa.Connection

# A process that is paused inside a transaction must not block the others for longer than a lease.
_IDLE_IN_TRANSACTION_MS = 5_000
# Connections that a burst of work has opened go again: the last one returned is the first one used, the others idle.
_IDLE_MS = 60_000
_SESSION = f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_MS} -c idle_session_timeout={_IDLE_MS}"
_TRUSTED_S = 1.0  # a connection that rested for longer may have been ended by the other side
_READERS = 8  # at once in a process; more would be slower, and open connections that are closed again at once
_WRITERS = 4  # connections of writers that stay open after use, besides those of the readers
_QUEUE_S = 10.0
_POLL_S = 1.0
log = logging.getLogger(__name__)
_TOLD = "coterie_told"
_PINNED = "coterie_pinned_release"
_SIGNER = "coterie_signer"
# What a wake-up between processes carries; an older release sends "w", "q" or nothing, and takes all others for both:
#   w   something was written: steps may be ready
#   a   a question about a cloud was answered
#   q   there may be a question about a cloud
#   r…  steps are ready for the conductors whose names follow, one in a line
WROTE, ANSWERED, QUESTION, READY = "w", "a", "q", "r"
_TRUST_S = 10.0  # a lost wake-up delays work by no more than this


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
    """The database's time now, in seconds since 1970."""
    return tx.execute(_NOW).scalar_one()


def tell(tx: Tx, words: str) -> None:
    """A line of the log, once this transaction is committed."""
    told: list[str] | None = tx.info.get(_TOLD)
    if told is not None:
        told.append(words)


def pinned_release(tx: Tx) -> str | None:
    """What `Ledger.pin` has set."""
    found: str | None = tx.get_execution_options().get(_PINNED)
    return found


def signer_of(tx: Tx) -> Signer | None:
    """What `Ledger.sign_with` has set."""
    found: Signer | None = tx.get_execution_options().get(_SIGNER)
    return found


def insert_or_update(tx: Tx, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """One statement, so that two writers cannot both insert."""
    new = insert_into(tx, table).values(**key, **values)
    tx.execute(new.on_conflict_do_update(index_elements=list(key), set_=dict(values)))


def insert_or_leave(tx: Tx, table: sa.Table, key: Mapping[str, Any]) -> None:
    tx.execute(insert_into(tx, table).values(**key).on_conflict_do_nothing())


def insert_into(tx: Tx, table: sa.Table) -> Any:
    """An INSERT with ON CONFLICT: each dialect has its own, and only the one in use is imported."""
    if tx.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # same shape, other dialect
    return insert(table)


class WakeUp:
    """Threads of one process rest on it until one of them notifies it. A woken thread reads the tables itself.

    `version` rises with every notification, so that one between a look and the rest that follows is not missed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._changed = threading.Condition()

    def notify(self) -> None:
        with self._changed:
            self.version += 1
            self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Rest until it was notified after version `seen`, at most for `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self.version != seen, timeout_s)


class Ledger:
    """A database and its two kinds of transaction. Nothing slow may happen inside either."""

    failures = DatabaseError  # of the database, when it is used

    def __init__(self, reader: sa.Engine, writer: sa.Engine) -> None:
        self._reader = reader
        self._writer = writer
        # SQLite's lock is not fair: writers of one process queue here instead of spinning there.
        self._write_lock = threading.Lock() if writer.dialect.name == "sqlite" else None
        self._readers = threading.Semaphore(_READERS) if writer.dialect.name == "postgresql" else None
        self._reading = threading.local()
        self.written = WakeUp()  # notified by every write of this process, and of others as far as we learn of it
        self.ready = WakeUp()  # notified when steps may have become ready for a conductor of this process
        self.asked = WakeUp()  # notified when there may be a question about a cloud
        self._conductors: set[str] = set()  # of this process
        self._wakeups: Wakeups | None = None

    @staticmethod
    def open(url: str) -> Ledger:
        """Connect, and bring an old schema up to date; a newer one is refused (LedgerTooNew)."""
        ledger = _connect(url)
        with _explain_sqlite_errors(url), ledger.answers_within(None):
            schema.upgrade(ledger._writer)
        if ledger.dialect == "postgresql":
            ledger._listen(_plain(url))
        return ledger

    @staticmethod
    def examine(url: str) -> None:
        """Raises what `open` would raise about the database; upgrades nothing."""
        ledger = _connect(url)
        try:
            with _explain_sqlite_errors(url):
                schema.require_known(ledger._reader)
        finally:
            ledger.close()

    @property
    def dialect(self) -> str:
        return self._writer.dialect.name

    @contextmanager
    def read(self) -> Iterator[Tx]:
        with self._queue_readers(), self._reader.begin() as tx:
            yield tx

    @contextmanager
    def _write(self) -> Iterator[Tx]:
        told: list[str] = []
        with self._write_lock or nullcontext(), self._writer.begin() as tx:
            tx.info[_TOLD] = told
            yield tx
        for words in told:
            log.info("%s", words)

    @contextmanager
    def write(self) -> Iterator[Tx]:
        with self._write() as tx:
            yield tx
        self.written.notify()
        self.ready.notify()
        if self._wakeups is not None:
            self._wakeups.send(WROTE)

    @contextmanager
    def write_outcomes(self) -> Iterator[Tx]:
        """Write what came of steps. It wakes no other process, since each wake-up costs every process that listens:
        `notify_ready` wakes the conductors that have steps to claim, and streams of events look for themselves."""
        with self._write() as tx:
            yield tx
        self.written.notify()

    @contextmanager
    def write_answer(self) -> Iterator[Tx]:
        """Write the answer to a question: it wakes what waits for answers, and no conductor to look for steps."""
        with self._write() as tx:
            yield tx
        self.written.notify()
        if self._wakeups is not None:
            self._wakeups.send(ANSWERED)

    @contextmanager
    def _queue_readers(self) -> Iterator[None]:
        """Dozens of workers may want to read at once, and a new connection costs the server more than many reads.

        Writers are few, and heartbeats among them: they do not wait, nor does a thread that reads already.
        """
        readers = None if getattr(self._reading, "now", False) else self._readers
        if readers is None:
            yield
            return
        took = readers.acquire(timeout=_QUEUE_S)
        self._reading.now = True
        try:
            yield
        finally:
            self._reading.now = False
            if took:
                readers.release()

    def notify_ready(self, conductors: Iterable[str] = ()) -> None:
        """Wake these conductors, which have steps to claim; without names, those of this process."""
        named = set(conductors)
        if not named or named & self._conductors:
            self.ready.notify()
        others = named - self._conductors
        if others and self._wakeups is not None:
            self._wakeups.send(READY + "\n".join(sorted(others)))

    def pin(self, release: str | None) -> None:
        """The release that this process behaves as during an upgrade, for whatever reads the fleet."""
        for engine in {self._reader, self._writer}:
            engine.update_execution_options(**{_PINNED: release})

    def sign_with(self, signer: Signer) -> None:
        """The Director's key: steps and questions that this process writes are signed with it."""
        for engine in {self._reader, self._writer}:
            engine.update_execution_options(**{_SIGNER: signer})

    def wake_as(self, conductor: str) -> None:
        """This process has a conductor of this name."""
        self._conductors.add(conductor)

    @contextmanager
    def answers_within(self, seconds: float | None) -> Iterator[None]:
        """A time limit for each answer of the database to this thread; SQLite needs none."""
        if self.dialect != "postgresql":
            yield
            return
        from coterie.ledger.postgresql import answer_within

        with answer_within(seconds):
            yield

    @contextmanager
    def write_silently(self) -> Iterator[Tx]:
        """Write without a wake-up, what makes no step ready: heartbeats, claims, records of drivers."""
        with self._write_lock or nullcontext(), self._writer.begin() as tx:
            yield tx

    def notify_question(self) -> None:
        """Wake the threads that answer questions about clouds, in this process and in others."""
        self.asked.notify()
        if self._wakeups is not None:
            self._wakeups.send(QUESTION)

    @property
    def poll_s(self) -> float:
        """How long a thread may rest without a look: long where other processes send wake-ups, short where not."""
        return _TRUST_S if self._wakeups is not None and self._wakeups.listening else _POLL_S

    def _listen(self, url: str) -> None:
        from coterie.ledger.postgresql import Wakeups  # SQLite needs no client library

        self._wakeups = Wakeups(url, self._receive)

    def _receive(self, words: set[str]) -> None:
        """Another process has written. A word that this release does not know may mean anything."""
        named = {name for word in words if word.startswith(READY) for name in word[1:].split("\n")}
        others = {word for word in words if not word.startswith(READY)}
        unknown = others - {WROTE, ANSWERED, QUESTION}
        ready = unknown or WROTE in others or named & self._conductors
        if ready or ANSWERED in others:
            self.written.notify()
        if ready:
            self.ready.notify()
        if unknown or QUESTION in others:
            self.asked.notify()

    def close(self) -> None:
        if self._wakeups is not None:
            self._wakeups.close()
        self._reader.dispose()
        self._writer.dispose()


def _connect(url: str) -> Ledger:
    return _sqlite(url) if url.startswith("sqlite") else _postgresql(url)


@contextmanager
def _explain_sqlite_errors(url: str) -> Iterator[None]:
    """Errors of SQLite get the file's name and a remedy; those of a server pass unchanged."""
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
    # isolation_level None: BEGIN is sent by our own listener, IMMEDIATE for writers, so that none fails half-way.
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
    from coterie.ledger.postgresql import OneByOne, connect  # SQLite needs no client library

    def engine(size: int, *, autocommit: bool) -> sa.Engine:
        made = sa.create_engine(
            _plain(url).replace("postgresql://", "postgresql+psycopg://", 1),
            pool_size=size,
            max_overflow=64,
            pool_use_lifo=True,
            hide_parameters=True,
            creator=lambda: connect(_plain(url), options=_SESSION, cursor_factory=OneByOne, autocommit=autocommit),
        )
        _check_rested_connections(made)
        _leave_standbys(made)
        return made

    # PostgreSQL shows each statement what is committed by then, in a transaction or not: a reader needs none, and
    # without one a query is one round trip, not three.
    return Ledger(engine(_READERS, autocommit=True), engine(_WRITERS, autocommit=False))


def _leave_standbys(engine: sa.Engine) -> None:
    """Drop the connections to a database that became a standby, so that the next ones lead to the primary."""

    def drop(context: sa.engine.ExceptionContext) -> None:
        if is_standby(context.original_exception):
            context.is_disconnect = True

    sa.event.listen(engine, "handle_error", drop)


def _check_rested_connections(engine: sa.Engine) -> None:
    """Ping a connection that rested for long before it is used again. A ping before every transaction would cost a
    round trip each, and prove no more: a connection that breaks later is noticed and retried anyhow."""

    from coterie.ledger.postgresql import ping

    def record_rest(connection: Any, record: Any) -> None:
        record.info["rests_since"] = monotonic()

    def ping_if_rested(connection: Any, record: Any, proxy: Any) -> None:
        if monotonic() - record.info.get("rests_since", monotonic()) < _TRUSTED_S:
            return
        try:
            ping(connection, engine.dialect)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.InvalidatePoolError from error

    sa.event.listen(engine, "checkin", record_rest)
    sa.event.listen(engine, "checkout", ping_if_rested)


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://", 1)
