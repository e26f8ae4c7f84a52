"""The event loop of a Director and the four ways it ends: a signal, idling, the end of its parent, a lost lease."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from coterie.director.context import Office
from coterie.director.process.tls import Tls
from coterie.ledger.views import tasks

log = logging.getLogger(__name__)
_GRACE_S = 5


class Life:
    def __init__(self, office: Office, idle_s: float | None, parent: bool, tls: Tls | None = None) -> None:
        self._office = office
        self._idle_s = idle_s
        self._parent = parent
        self._tls = tls
        self._server: _Server | None = None

    def run(self, app: FastAPI, door: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # anybody can write them, and log-ins are limited by address
            ssl_certfile=self._tls.certificate if self._tls else None,
            ssl_keyfile=self._tls.key if self._tls else None,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = _Server(config)
        # The end may have come while everything was still being opened.
        self._server.should_exit = self._office.ending
        try:
            asyncio.run(self._serve(self._server, door))
        finally:
            door.close()

    def end(self) -> None:
        """From any thread: finish what is being answered, then stop."""
        self._office.ending = True
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self, server: uvicorn.Server, door: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        watches = [asyncio.create_task(self._watch_idle())] if self._idle_s else []
        if self._parent:
            loop.add_reader(0, self._read_parent)
        where = door.getsockname()
        log.info("listening on %s", where if isinstance(where, str) else f"{where[0]}:{where[1]}")
        await server.serve([door])
        self._office.ending = True
        for watch in watches:
            watch.cancel()

    def _read_parent(self) -> None:
        if not os.read(0, 4096):
            asyncio.get_running_loop().remove_reader(0)
            log.info("the command that started this Director has ended")
            self.end()

    async def _watch_idle(self) -> None:
        limit = self._idle_s or 0.0
        while not self._office.ending:
            await asyncio.sleep(max(0.05, min(5.0, limit / 4)))
            if self._office.activity.idle_for() < limit or await run_in_threadpool(self._unfinished):
                continue
            if self._office.activity.idle_for() >= limit:
                log.info("idle for %.0f s: ending", limit)
                self.end()

    def _unfinished(self) -> bool:
        with self._office.ledger.read() as tx:
            return bool(tasks.unfinished(tx))


class _Server(uvicorn.Server):
    """Signals are ours: the conductor has to drain after the last answer, so none may kill the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
