"""A warm core for thin CPI programs: answers each connection in a thread, on loopback, until it is closed.

A conformance run starts some two thousand thin programs, and a shell costs a tenth of a Python interpreter.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable
from pathlib import Path


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
        length = int(self.rfile.readline())
        self.wfile.write(self.server.respond(self.rfile.read(length)))


def thin_client(folder: Path, port: int) -> str:
    """The path of a CPI program that sends its standard input to the core, after its length, and prints the answer."""
    path = folder / "thin-cpi"
    path.write_text(f"#!/bin/bash\nPORT={port}\n{_CLIENT}")
    path.chmod(0o755)
    return str(path)


_CLIENT = """LC_ALL=C
request=$(</dev/stdin)
exec 3<>/dev/tcp/127.0.0.1/$PORT || exit
printf '%d\\n%s' ${#request} "$request" >&3
exec cat <&3
"""
