"""A TCP proxy that breaks connections in the ways of real networks: resets, half-open connections, latency."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """`latency_s` delays every piece that the server sends. While `refusing`, new connections are reset."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._muted: list[tuple[socket.socket, socket.socket]] = []  # kept, so that the clients' sides stay open
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self.latency_s = 0.0
        self.refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same address, by way of this proxy."""
        where = urlsplit(url)
        return where._replace(netloc=f"{where.username}@127.0.0.1:{self.port}").geturl()

    def reset(self) -> int:
        """Cut every connection; how many."""
        cut = self._take()
        for client, server in cut:
            _reset(client)
            _close(server)
        return len(cut)

    def mute(self) -> int:
        """Lose the server of every connection and leave the client's side open; how many."""
        lost = self._take()
        for _, server in lost:
            _close(server)
        self._muted += lost
        return len(lost)

    def close(self) -> None:
        self.refusing = True
        self.reset()
        for client, _ in self._muted:
            _close(client)
        self._listener.close()

    def _take(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            taken, self._pairs = self._pairs, []
        return taken

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                client, _ = self._listener.accept()
                if self.refusing:
                    _reset(client)
                    continue
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, 10)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        pair = (client, server)
        with self._lock:
            self._pairs.append(pair)
        threading.Thread(target=self._pour, args=(pair, server, client, True), daemon=True).start()
        self._pour(pair, client, server, False)

    def _pour(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, into: socket.socket, answers: bool
    ) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                if answers and self.latency_s:
                    time.sleep(self.latency_s)
                into.sendall(piece)
        with self._lock:
            known = pair in self._pairs
            if known:
                self._pairs.remove(pair)
        if known:  # otherwise a strike has dealt with both sides
            for side in pair:
                _close(side)


def _close(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()


def _reset(side: socket.socket) -> None:
    with suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.close()


@contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    """In front of the server of this URL."""
    where = urlsplit(url)
    made = Proxy((where.hostname or "127.0.0.1", where.port or 5432))
    try:
        yield made
    finally:
        made.close()
