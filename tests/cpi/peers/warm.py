"""A warm core for thin CPI programs: answers each connection in a thread, on loopback, until it is closed."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable


class WarmCore(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, respond: Callable[[bytes], bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.respond = respond
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, WarmCore)
        self.wfile.write(self.server.respond(self.rfile.read()))
