"""A page of a service that has no API of its own: /livez, /readyz, /metrics. Reads only; nothing here names a node."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coterie.errors import UsageError

log = logging.getLogger(__name__)
_CONNECTIONS = 64
_CONNECTION_S = 15.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Page:
    """One listener. `ready` is None when all is well, else why not. Beyond this machine only with a token."""

    def __init__(
        self, address: str, token: str | None, ready: Callable[[], str | None], metrics: Callable[[], str]
    ) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        if token is None and not _is_local(host):
            raise UsageError(
                f"a page on {address} can be read by others",
                why="without a token it is for this machine only",
                remedy="listen on 127.0.0.1, or set COTERIE_METRICS_TOKEN",
            )
        try:
            self._server = _Server((host, int(port)), _handler(token, ready, metrics))
        except OSError as error:
            raise UsageError(
                f"cannot listen on {address}",
                why=error.strerror or str(error),
                remedy="choose another HOST:PORT: COTERIE_CONDUCTOR_LISTEN",
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()
        log.info("health and metrics on port %s", self.port)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Few connections at once, none for long: a client needs no token to open one."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(_CONNECTION_S, _cut_off, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a client that goes, or is cut off, must not fill the log."""


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _handler(
    token: str | None, ready: Callable[[], str | None], metrics: Callable[[], str]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status, text = self._answer()
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", _TEXT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self) -> tuple[int, str]:
            path = self.path.partition("?")[0]
            if path == "/livez":
                return 200, "ok\n"
            if not self._welcome():
                return 401, "this page wants the token of COTERIE_METRICS_TOKEN\n"
            if path == "/metrics":
                return 200, metrics()
            if path != "/readyz":
                return 404, "there are /livez, /readyz and /metrics\n"
            why = ready()
            return (200, "ok\n") if why is None else (503, f"{why}\n")

        def _welcome(self) -> bool:
            if token is None:
                return True
            kind, _, offered = self.headers.get("Authorization", "").partition(" ")
            return kind.lower() == "bearer" and hmac.compare_digest(offered.strip().encode(), token.encode())

        def log_message(self, format: str, *words: object) -> None:
            """Log nothing: metrics are read every few seconds."""

    return Handler
