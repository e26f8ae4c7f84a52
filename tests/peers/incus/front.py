"""A proxy before a member's socket that refuses, loses or delays single answers; and a guest's socket of Incus."""

from __future__ import annotations

import http.client
import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

_LATE_S = 0.5
_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


class Front:
    def __init__(self, target: str, path: Path, around: Callable[[Any], Any] = lambda forward: forward) -> None:
        """`around`: makes of the way to the server one to a server that has more."""
        self.path = path
        self._forward = around(self._send)
        self._target = target
        self._bends: list[tuple[str, re.Pattern[str], str, int]] = []
        self._lock = threading.Lock()
        self._server = _serve(path, self._answer)

    def bend(self, method: str, pattern: str, how: str, status: int = 0) -> None:
        """Once, the next request of this kind. Two of one kind apply to the same request."""
        with self._lock:
            self._bends.append((method, re.compile(pattern), how, status))

    def straighten(self) -> None:
        with self._lock:
            self._bends.clear()

    @contextmanager
    def guest(self, name: str) -> Iterator[Path]:
        path = self.path.with_name("guest.socket")

        def answer(handler: _Handler) -> None:
            handler.reply(200, f"#cloud-config\ninstance-id: x\nlocal-hostname: {name}\n".encode())

        server = _serve(path, answer)
        yield path
        server.shutdown()
        server.server_close()
        path.unlink()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: _Handler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        bends = self._take(handler.command, handler.path.partition("?")[0])
        refused = next((status for how, status in bends if how == "refuse"), 0)
        if refused:
            text = json.dumps({"type": "error", "error_code": refused, "error": "bent by the proxy"})
            handler.reply(refused, text.encode())
            return
        hows = [how for how, _ in bends]
        if "late" in hows:
            threading.Timer(_LATE_S, self._forward, (handler.command, handler.path, handler.headers, body)).start()
        else:
            status, headers, raw = self._forward(handler.command, handler.path, handler.headers, body)
        if hows:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.reply(status, raw, headers)

    def _take(self, method: str, path: str) -> list[tuple[str, int]]:
        with self._lock:
            found = [one for one in self._bends if one[0] == method and one[1].fullmatch(path)]
            self._bends = [one for one in self._bends if one not in found]
        return [(how, status) for _, _, how, status in found]

    def _send(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("incus", timeout=90)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(90)
        connection.sock.connect(self._target)
        try:
            kept = {name: value for name, value in headers.items() if name.lower() not in _HOP}
            connection.request(method, path, body or None, kept)
            answer = connection.getresponse()
            given = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            return answer.status, given, answer.read()
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()
            return
        self.close_connection = True

    def log_message(self, *words: Any) -> None:
        """Quiet."""

    def address_string(self) -> str:
        return "socket"


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def _serve(path: Path, answer: Any) -> _Server:
    methods = {f"do_{method}": lambda self: answer(self) for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    server = _Server(str(path), type("Handler", (_Handler,), methods))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server
