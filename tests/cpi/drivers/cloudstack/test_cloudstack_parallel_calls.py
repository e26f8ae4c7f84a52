"""`max_parallel_calls` limits the calls that run at the same time, for all drivers of a cloud in a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from coterie.cpi.contract import Runtime
from coterie.cpi.drivers.cloudstack.driver import CloudstackCpi

MISSING = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"


class CountingCloud(ThreadingHTTPServer):
    """Every list is empty; `highest` is the largest number of requests that it had at the same time."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.running = self.highest = self.answered = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/client/api"


class _Handler(BaseHTTPRequestHandler):
    server: CountingCloud

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        with self.server.lock:
            self.server.running += 1
            self.server.highest = max(self.server.highest, self.server.running)
        time.sleep(0.02)
        with self.server.lock:
            self.server.running -= 1
            self.server.answered += 1
        body = b'{"listvolumesresponse": {}}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def cloud() -> Iterator[CountingCloud]:
    made = CountingCloud()
    yield made
    made.shutdown()
    made.server_close()


def test_no_more_calls_run_at_once_than_allowed(cloud: CountingCloud) -> None:
    properties = {"endpoint": cloud.endpoint, "api_key": "k", "secret_access_key": "s", "max_parallel_calls": 3}
    runtime = Runtime(MISSING, None)  # type: ignore[arg-type] # it submits nothing
    drivers = [CloudstackCpi("lab", properties, runtime) for _ in range(2)]
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda number: drivers[number % 2].has_disk(MISSING), range(36)))
    assert found == [False] * 36
    assert cloud.answered == 36
    assert cloud.highest <= 3
