"""What the HTTP servers of all fronts share: a thread for each connection, and nothing of a request in any log."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Reply:
    """`body`: nothing, bytes, or what is written as JSON. `lost`: the work is done, and the connection breaks instead
    of an answer."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False


class FrontServer(ThreadingHTTPServer):
    """Serves until closed."""

    daemon_threads = True
    request_queue_size = 128

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a mistake of the front."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class FrontHandler(BaseHTTPRequestHandler):
    """Of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: requests carry keys and tokens."""

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, reply: Reply) -> None:
        if reply.lost:
            self.break_off()
            return
        plain = reply.body is None or isinstance(reply.body, bytes)
        raw = reply.body or b"" if plain else json.dumps(reply.body).encode()
        kind = {} if plain else {"Content-Type": "application/json; charset=utf-8"}
        with suppress(ConnectionError):
            self.send_response(reply.status)
            for name, value in {**kind, "Content-Length": str(len(raw)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

    def break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.close()
