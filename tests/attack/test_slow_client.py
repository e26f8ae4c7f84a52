"""A client without a token that connects often, sends slowly, or does not read."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process import connections, http_server
from coterie.director.process.http_server import HttpServer
from coterie.telemetry import page

LIMIT = 40


class Served:
    """A Director's HTTP server in a thread of this process."""

    def __init__(self, context: AppContext) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._server = HttpServer(context, None, False)
        self._thread = threading.Thread(target=self._run, args=(context,))
        self._thread.start()

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        made.sendall(sent)
        return made

    def get(self, path: str) -> bytes:
        with self.connect(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()) as made:
            return b"".join(iter(lambda: made.recv(65536), b""))

    def end(self) -> None:
        self._server.end()
        self._thread.join(60)

    def _run(self, context: AppContext) -> None:
        self._server.run(build(context), self._listener)


@pytest.fixture
def served(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(http_server, "connection_limit", lambda: LIMIT)
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(connections, "WRITE_S", 1.0)
    # Signals belong to the main thread.
    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", lambda *_: None)
    context.guarded = True
    made = Served(context)
    yield made
    made.end()


def is_closed(client: socket.socket, within: float) -> bool:
    client.settimeout(within)
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_more_slow_connections_than_the_limit_keep_no_one_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest give way: none of them has ended by itself when the request is answered."""
    monkeypatch.setattr(connections, "HEAD_S", 600.0)
    with contextlib.ExitStack() as held:
        for _ in range(3 * LIMIT):
            held.enter_context(served.connect(b"GET /livez HTTP/1.1\r\nX-a: "))
        assert b"200 OK" in served.get("/livez")


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET /livez HTTP/1.1\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",  # answered, then one byte at a time
        b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",  # refused, the body still comes
    ],
)
def test_a_connection_that_sends_a_byte_now_and_then_is_closed(served: Served, begin: bytes) -> None:
    with served.connect(begin) as client:
        until = time.monotonic() + 60
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < until and not is_closed(client, 0.2):
                client.sendall(b"x")
        assert time.monotonic() < until


def test_a_client_that_reads_no_answer_is_closed(served: Served, context: AppContext) -> None:
    context.guarded = False  # a large answer needs a caller
    request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", served.port))
        client.sendall(request * 40)
        until = time.monotonic() + 60
        with pytest.raises(ConnectionError):
            while time.monotonic() < until:
                time.sleep(0.2)
                client.sendall(b"x")


def test_without_descriptors_it_pauses_logs_once_and_goes_on(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    assert b"200 OK" in served.get("/livez")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as first, socket.socket() as second:
        resource.setrlimit(resource.RLIMIT_NOFILE, (second.fileno() + 1, hard))
        try:
            for client in (first, second):
                client.connect(("127.0.0.1", served.port))
            time.sleep(1.0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [one.message for one in caplog.records if "accept" in one.message] == [
        "cannot accept connections: Too many open files"
    ]
    assert b"200 OK" in served.get("/livez")


def test_the_page_of_a_conductor_survives_slow_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_CONNECTIONS", 4)
    monkeypatch.setattr(page, "_CONNECTION_S", 1.0)
    served = page.Page("127.0.0.1:0", None, lambda: None, lambda: "")
    served.start()
    with contextlib.ExitStack() as held:
        slow = [held.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)) for _ in range(8)]
        until = time.monotonic() + 60
        while slow and time.monotonic() < until:  # a byte now and then, from each that is still open
            for one in list(slow):
                try:
                    one.sendall(b"G")
                except OSError:
                    slow.remove(one)
            time.sleep(0.1)
        assert slow == []
        client = held.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
        client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        assert b"200" in client.recv(100)
    served.stop()
