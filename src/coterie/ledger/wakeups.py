"""Wake-ups between processes through PostgreSQL's LISTEN and NOTIFY: one connection and one thread per process.

A wake-up is a courtesy, never a fact: whoever waits looks into the tables, and polls when nobody wakes it.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

log = logging.getLogger(__name__)

_CHANNEL = "coterie"
WROTE, ASKED = "w", "q"  # what a wake-up says; an older release says nothing, which means both
_GAP_S = 0.002  # wake-ups that follow each other faster than this are one
_RETRY_S = 0.5
_LIVENESS_S = 30.0  # how long a silent connection is trusted before it is asked whether it is still there


class Wakeups:
    """`heard` is called when another process has written, with whether it may be a question; `tell` says so of us."""

    def __init__(self, url: str, heard: Callable[[bool], None]) -> None:
        self._url = url
        self._heard = heard
        self._wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._wake, False)
        self._over = False
        self.listening = False
        self._thread = threading.Thread(target=self._run, name="wakeups", daemon=True)
        self._thread.start()

    def tell(self, word: str = WROTE) -> None:
        try:
            os.write(self._bell, word.encode())
        except BlockingIOError:
            pass  # the pipe is full: the thread is to wake up anyhow
        except OSError:
            pass  # closed: the process ends

    def close(self) -> None:
        self._over = True
        self.tell()
        self._thread.join(5.0)
        for end in (self._wake, self._bell):
            os.close(end)

    def _run(self) -> None:
        while not self._over:
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    connection.execute(f"LISTEN {_CHANNEL}")
                    self.listening = True
                    self._heard(True)  # whatever was written while nobody listened
                    self._serve(connection)
            except psycopg.Error as error:
                if self.listening:
                    log.warning("no wake-ups from the database, polling meanwhile: %s", type(error).__name__)
                self.listening = False
                self._heard(True)  # who trusted in being woken must look by itself again
                self._rest()

    def _serve(self, connection: psycopg.Connection[Any]) -> None:
        mine = connection.info.backend_pid
        waiting = select.poll()  # not select(), which knows no descriptor above 1023
        waiting.register(connection.fileno(), select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        while not self._over:
            ready = {number for number, _ in waiting.poll(_LIVENESS_S * 1000)}
            if not ready:
                connection.execute("SELECT 1")
            if self._wake in ready and (said := self._rung()):
                connection.execute(f"NOTIFY {_CHANNEL}, '{ASKED if ASKED in said else WROTE}'")
            told = {one.payload for one in connection.notifies(timeout=0) if one.pid != mine}
            if told:
                self._heard(told != {WROTE})
            time.sleep(_GAP_S)

    def _rung(self) -> str:
        try:
            return os.read(self._wake, 65_536).decode()
        except BlockingIOError:
            return ""

    def _rest(self) -> None:
        give_up = time.monotonic() + _RETRY_S
        while not self._over and time.monotonic() < give_up:
            time.sleep(0.05)
