"""What only PostgreSQL needs: wake-ups between processes, a deadline for every answer, rows that are sent one by one.

A wake-up carries no facts: a woken thread reads the tables, and polls them when no wake-up comes.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from coterie.ledger.store import READY, WROTE

log = logging.getLogger(__name__)

_CHANNEL = "coterie"
_LONGEST = 7000  # characters of a payload; PostgreSQL takes 8,000 bytes
_GAP_S = 0.002  # wake-ups that follow each other faster than this are one
_RETRY_S = 0.5
_LIVENESS_S = 30.0  # how long a silent connection is trusted before it is tested with a query


_CONNECT_S = 5
# A network that swallows packets ends a connection within a minute, not after hours.
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 45_000,
}
_ANSWER_S = 30.0  # of one statement or commit; the longest of ours take a few seconds
_PROBE_S = 5.0
_deadlines = threading.local()


@contextmanager
def answer_within(seconds: float | None) -> Iterator[None]:
    """Another time limit for each answer of the server to this thread. None: no limit, for an upgrade of the schema."""
    outer = vars(_deadlines).copy()
    _deadlines.seconds = seconds
    try:
        yield
    finally:
        vars(_deadlines).clear()
        vars(_deadlines).update(outer)


class DeadlineConnection(psycopg.Connection[Any]):
    """Fails and closes itself when the server does not answer in time.

    No option of TCP can do that: a proxy that has lost the server acknowledges everything itself.
    """

    def wait(self, gen: Any, *arguments: Any, **keywords: Any) -> Any:
        seconds: float | None = getattr(_deadlines, "seconds", _ANSWER_S)
        if seconds is None:
            return super().wait(gen, *arguments, **keywords)
        try:
            return super().wait(_limit(gen, seconds), *arguments, **keywords)
        except _NoAnswer:
            self.pgconn.finish()  # an answer that still comes belongs to nothing
            raise


def connect(url: str, **more: Any) -> DeadlineConnection:
    """What the URL says (`?connect_timeout=60`) counts before the defaults of this module."""
    settings = {"connect_timeout": _CONNECT_S, **_KEEPALIVE, **conninfo_to_dict(url), **more}
    return DeadlineConnection.connect(**settings)


def ping(connection: DeadlineConnection, dialect: Any) -> None:
    """Raises the client library's error if the server does not answer soon."""
    with answer_within(min(_PROBE_S, getattr(_deadlines, "seconds", None) or _PROBE_S)):
        dialect.do_ping(connection)


class _NoAnswer(psycopg.OperationalError):
    pass


def _limit(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """The client library's own steps of a query; it wakes them ten times a second while the server is silent."""
    give_up = time.monotonic() + seconds
    try:
        state = next(steps)
        while True:
            ready = yield state
            if not ready and time.monotonic() > give_up:
                steps.close()
                raise _NoAnswer(f"the database did not answer within {seconds:.0f} s")
            state = steps.send(ready)
    except StopIteration as end:
        return end.value


class OneByOne(psycopg.Cursor[Any]):
    """Sends rows one by one, where psycopg would send them as one pipeline.

    A process that is stopped in a pipeline leaves a server that is neither idle nor at work: no time-out of
    PostgreSQL 15 ends its transaction, and its locks stay until the process wakes up. Between single statements the
    server is idle, and `idle_in_transaction_session_timeout` ends the transaction.
    """

    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        for params in params_seq:
            self.execute(query, params)


class Wakeups:
    """One connection and one thread per process, through LISTEN and NOTIFY.

    `send` wakes the other processes. `receive` is called with the words of other processes; with an empty word after a
    connection was opened or lost, since anything may have been missed.
    """

    def __init__(self, url: str, receive: Callable[[set[str]], None]) -> None:
        self._url = url
        self._receive = receive
        self._words: set[str] = set()  # to be sent
        self._lock = threading.Lock()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        os.set_blocking(self._read_end, False)
        self._closed = False
        self.listening = False
        self._thread = threading.Thread(target=self._run, name="wakeups", daemon=True)
        self._thread.start()

    def send(self, word: str = WROTE) -> None:
        with self._lock:
            waiting = word in self._words
            self._words.add(word)
        if not waiting:
            self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()
        self._thread.join(5.0)
        for end in (self._read_end, self._write_end):
            os.close(end)

    def _wake(self) -> None:
        try:
            os.write(self._write_end, b"x")
        except BlockingIOError:
            pass  # the pipe is full: the thread wakes up anyhow
        except OSError:
            pass  # closed: the process is ending

    def _run(self) -> None:
        while not self._closed:
            try:
                with connect(self._url, autocommit=True) as connection:
                    connection.execute(f"LISTEN {_CHANNEL}")
                    self.listening = True
                    self._receive({""})  # something may have been written before we listened
                    self._serve(connection)
            except psycopg.Error as error:
                if self.listening:
                    log.warning("no wake-ups from the database, polling meanwhile: %s", type(error).__name__)
                self.listening = False
                self._receive({""})  # threads that relied on wake-ups must poll again
                self._rest()

    def _serve(self, connection: psycopg.Connection[Any]) -> None:
        mine = connection.info.backend_pid
        waiting = select.poll()  # not select(), which takes no descriptor above 1023
        waiting.register(connection.fileno(), select.POLLIN)
        waiting.register(self._read_end, select.POLLIN)
        while not self._closed:
            ready = {number for number, _ in waiting.poll(_LIVENESS_S * 1000)}
            if not ready:
                with answer_within(_PROBE_S):
                    connection.execute("SELECT 1")
            if self._read_end in ready:
                self._drain_pipe()
                self._send_words(connection)
            words = {one.payload for one in connection.notifies(timeout=0) if one.pid != mine}
            if words:
                self._receive(words)
            time.sleep(_GAP_S)

    def _send_words(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            words, self._words = self._words, set()
        for word in _merge(words):
            connection.execute("SELECT pg_notify(%s, %s)", [_CHANNEL, word])

    def _drain_pipe(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._read_end, 65_536)

    def _rest(self) -> None:
        give_up = time.monotonic() + _RETRY_S
        while not self._closed and time.monotonic() < give_up:
            time.sleep(0.05)


def _merge(words: set[str]) -> list[str]:
    """One word for all the conductors that have steps to claim; none if everything is woken anyhow."""
    rest = sorted(word for word in words if not word.startswith(READY))
    names = sorted({name for word in words - {*rest} for name in word[1:].split("\n")})
    if not names or WROTE in rest:
        return rest
    named = READY + "\n".join(names)
    return [*rest, named if len(named.encode()) < _LONGEST else WROTE]
