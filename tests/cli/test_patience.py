"""A client rides out the restart of what its Director depends on; a real refusal is told at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coterie.cli.link.api import Api
from coterie.cli.link.problems import ApiProblem
from coterie.cli.link.route import TcpRoute
from coterie.cli.link.stream import follow

AWAY = {"code": "unreachable", "what": "the ledger does not answer", "retryable": True}
STREAM = 'id: 1\nevent: node.up\ndata: {"n": 1}\n\nevent: end\ndata: {}\n\n'
Answers = list[tuple[int, Any]]


@pytest.fixture
def director() -> Iterator[Callable[[Answers], Api]]:
    """A Director that gives these answers, one after the other."""
    left: Answers = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, said = left.pop(0)
            body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def answering(answers: Answers) -> Api:
        left[:] = answers
        return Api(TcpRoute(f"http://127.0.0.1:{server.server_address[1]}", "test", None))

    yield answering
    server.shutdown()
    server.server_close()


def test_a_stream_is_taken_up_again_when_the_database_is_back(director: Callable[[Answers], Api]) -> None:
    api = director([(503, AWAY), (502, "<html>a proxy</html>"), (200, STREAM)])
    assert [message.kind for message in follow(api, "/v1/tasks/1/events")] == ["node.up", "end"]


def test_a_read_is_repeated_and_then_told(director: Callable[[Answers], Api]) -> None:
    assert director([(503, AWAY), (200, {"id": 1})]).get("/v1/tasks/1") == {"id": 1}
    with pytest.raises(ApiProblem, match="the ledger does not answer"):
        director([(503, AWAY)] * 4).get("/v1/tasks/1")


@pytest.mark.parametrize("status", [404, 401, 406, 500])
def test_a_refusal_is_final(director: Callable[[Answers], Api], status: int) -> None:
    refusal = (status, {"code": "x", "what": "no"})
    for ask in (lambda api: api.get("/v1/x"), lambda api: list(follow(api, "/v1/x"))):
        with pytest.raises(ApiProblem, match="no"):
            ask(director([refusal]))


def test_a_repeated_request_waits_for_its_first_one(director: Callable[[Answers], Api]) -> None:
    """A killed Director's reservation is taken over after some seconds: longer than a few quick tries."""
    busy = {"code": "conflict", "what": "the same request", "retryable": True, "details": {"same_request": True}}
    api = director([*[(409, busy)] * 7, (202, {"task_id": 3})])
    assert api.start("POST", "/v1/cleanups") == 3
    other = {"code": "conflict", "what": "another one", "retryable": False}
    with pytest.raises(ApiProblem, match="another one"):
        director([(409, other)]).start("POST", "/v1/cleanups")
