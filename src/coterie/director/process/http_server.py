"""The HTTP server of a Director, its certificate, and the four causes of its end: a signal, idling, the end of its
parent process, a lost lease."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from coterie.director.access.middleware import OVER_LOOPBACK
from coterie.director.context import AppContext, Loopback
from coterie.director.process import sockets
from coterie.director.process.connections import Acceptor, Protocol, connection_limit
from coterie.errors import UsageError
from coterie.ledger.views import tasks
from coterie.seal.keys import require_private
from coterie.settings import Settings
from coterie.telemetry import systemd

log = logging.getLogger(__name__)
_GRACE_S = 5
_WATCH_S = 5.0


class HttpServer:
    def __init__(self, context: AppContext, idle_s: float | None, parent: bool, tls: Tls | None = None) -> None:
        self._context = context
        self._idle_s = idle_s
        self._parent = parent
        self._tls = tls
        self._server: _Server | None = None
        self._loopback: Loopback | None = None

    def run(self, app: FastAPI, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # any client can set them, and log-ins are limited by address
            ssl_certfile=self._tls.certificate if self._tls else None,
            ssl_keyfile=self._tls.key if self._tls else None,
            timeout_graceful_shutdown=_GRACE_S,
            http=Protocol,
            ws="none",
        )
        # Its warnings are about what clients send, and a client must not be able to fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._server = _Server(config)
        if not self._context.guarded:
            self._context.open_loopback = self._open_loopback
        # end() may have been called before the server existed.
        self._server.should_exit = self._context.ending
        try:
            asyncio.run(self._serve(self._server, listener))
        finally:
            listener.close()

    def end(self) -> None:
        """From any thread: finish the requests under way, then stop."""
        self._context.ending = True
        if self._server is not None:
            self._server.should_exit = True

    def _open_loopback(self) -> Loopback:
        """Listen on a port of this machine too, for browsers that log in there. Called in the event loop."""
        assert self._server is not None  # a request is being answered
        if self._loopback is None:
            listener = sockets.tcp("127.0.0.1:0")
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._loopback = Loopback(origin, secrets.token_hex(16))
            self._server.listen_on(listener, _mark_loopback(self._server.config.app, self._loopback.id))
            log.info("listening for the console on %s", origin)
        return self._loopback

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        watches = [asyncio.create_task(_notify_watchdog())]
        if self._idle_s:
            watches.append(asyncio.create_task(self._watch_idle()))
        if self._parent:
            loop.add_reader(0, self._read_parent)
        where = listener.getsockname()
        log.info("listening on %s", where if isinstance(where, str) else f"{where[0]}:{where[1]}")
        systemd.notify("READY=1")
        await server.serve([listener])
        systemd.notify("STOPPING=1")
        self._context.ending = True
        for watch in watches:
            watch.cancel()

    def _read_parent(self) -> None:
        if not os.read(0, 4096):
            asyncio.get_running_loop().remove_reader(0)
            log.info("the command that started this Director has ended")
            self.end()

    async def _watch_idle(self) -> None:
        limit = self._idle_s or 0.0
        while not self._context.ending:
            await asyncio.sleep(max(0.05, min(5.0, limit / 4)))
            if self._context.activity.idle_for() < limit or await run_in_threadpool(self._has_unfinished_tasks):
                continue
            if self._context.activity.idle_for() >= limit:
                log.info("idle for %.0f s: ending", limit)
                self.end()

    def _has_unfinished_tasks(self) -> bool:
        with self._context.ledger.read() as tx:
            return bool(tasks.unfinished(tx))


def _mark_loopback(app: Any, listener: str) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, OVER_LOOPBACK: listener}, receive, send)

    return answer


async def _notify_watchdog() -> None:
    while True:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(_WATCH_S)


class _Server(uvicorn.Server):
    """Leaves signals to us: the conductor has to drain after the last answer, so none may kill the process. Accepts
    connections through an Acceptor, which bounds them."""

    _acceptors: tuple[Acceptor, ...] = ()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []  # of asyncio, which would accept without a limit
        limit, tls = connection_limit(), self.config.ssl
        self._acceptors = tuple(Acceptor(one, tls, limit, self._new_protocol) for one in sockets or ())
        for acceptor in self._acceptors:
            acceptor.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            await acceptor.close()
        await super().shutdown(sockets)

    def listen_on(self, listener: socket.socket, app: ASGIApp) -> None:
        """One more listener, whose requests another application answers."""
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            http=Protocol,
            ws="none",
        )
        config.load()
        new = Acceptor(listener, None, connection_limit(), lambda: self._new_protocol(config))
        new.start()
        self._acceptors = (*self._acceptors, new)

    def _new_protocol(self, config: uvicorn.Config | None = None) -> Protocol:
        return Protocol(config or self.config, self.server_state, {}, asyncio.get_running_loop())


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path


def read_tls(settings: Settings) -> Tls | None:
    """The configured certificate, after a check that it can be used."""
    certificate, key = settings["tls_certificate"], settings["tls_key"]
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "tls_certificate" if certificate is None else "tls_key"
        raise UsageError(f"setting {missing} is missing", remedy="set both tls_certificate and tls_key, or neither")
    try:
        require_private(key)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as error:
        raise UsageError(
            f"cannot use the certificate {certificate} with the key {key}",
            why=error.strerror or str(error),
            remedy="check the settings tls_certificate and tls_key: PEM files that belong together",
        ) from error
    return Tls(certificate, key)
