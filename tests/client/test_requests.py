"""What a client repeats and what it does not, how it reads pages, and what it makes of the end of a task."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coterie.client import ApiProblem, Client, TaskFailed, TimedOut
from coterie.client.api import Api
from coterie.client.routes import TcpRoute
from coterie.client.stream import follow
from coterie.errors import Unreachable, UsageError

AWAY = {"code": "unreachable", "what": "the ledger does not answer", "retryable": True}
STREAM = 'id: 1\nevent: node.up\ndata: {"n": 1}\n\nevent: end\ndata: {}\n\n'
Answers = list[tuple[int, Any]]
CUT = 0
SEEN: list[tuple[str, dict[str, str], bytes]] = []  # path, headers and body of each request


@pytest.fixture
def director() -> Iterator[Callable[[Answers], Api]]:
    """A Director that gives these answers, one after the other."""
    left: Answers = []
    SEEN.clear()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            SEEN.append((self.path, dict(self.headers), self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            status, said = left.pop(0)
            if status == CUT:
                self.close_connection = True
                return
            body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PATCH = do_GET

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
    assert Client(api=director([(503, AWAY), (200, {"id": 1})])).tasks.get(1) == {"id": 1}
    with pytest.raises(ApiProblem, match="the ledger does not answer"):
        Client(api=director([(503, AWAY)] * 4)).tasks.get(1)


@pytest.mark.parametrize("status", [404, 401, 406, 500])
def test_a_refusal_is_final(director: Callable[[Answers], Api], status: int) -> None:
    refusal = (status, {"code": "x", "what": "no"})
    for ask in (lambda api: api.call("GET", "/v1/x"), lambda api: list(follow(api, "/v1/x"))):
        with pytest.raises(ApiProblem, match="no"):
            ask(director([refusal]))


def test_a_repeated_request_waits_for_its_first_one(director: Callable[[Answers], Api]) -> None:
    """A killed Director's reservation is taken over after some seconds: longer than a few quick tries."""
    busy = {"code": "conflict", "what": "the same request", "retryable": True, "details": {"same_request": True}}
    api = director([*[(409, busy)] * 7, (202, {"task_id": 3})])
    assert Client(api=api).clouds.prove("lab") == 3
    other = {"code": "conflict", "what": "another one", "retryable": False}
    with pytest.raises(ApiProblem, match="another one"):
        Client(api=director([(409, other)])).clouds.prove("lab")


def test_a_change_is_repeated_after_a_cut_under_one_key(director: Callable[[Answers], Api]) -> None:
    client = Client(api=director([(CUT, None), (CUT, None), (202, {"task_id": 3}), (202, {"task_id": 4})]))
    assert client.deployments.act("web", action="restart", nodes=["web/0"]) == 3
    keys = [headers["Idempotency-Key"] for _, headers, _ in SEEN]
    assert len(keys) == 3 and len(set(keys)) == 1
    assert client.deployments.act("web", action="restart", nodes=["web/0"], idempotency_key="mine") == 4
    assert SEEN[-1][1]["Idempotency-Key"] == "mine"


def test_a_change_that_was_cut_off_waits_for_a_director_that_restarts(
    director: Callable[[Answers], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = director([(CUT, None), (202, {"task_id": 3})])
    connect, refusals = api.route.open, [False, True, True, True, True, True, False]

    def open_route(timeout: float) -> Any:
        if refusals.pop(0):
            raise Unreachable("refused")
        return connect(timeout)

    monkeypatch.setattr(api.route, "open", open_route)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert Client(api=api).deployments.act("web", action="restart", nodes=["web/0"]) == 3
    assert refusals == []
    refusals[:] = [True]
    with pytest.raises(Unreachable, match="refused"):
        Client(api=api).deployments.act("web", action="restart", nodes=["web/0"])
    director([(CUT, None)])
    refusals[:] = [False, *[True] * 9]
    monkeypatch.setattr("coterie.client.api._RESTART_S", 0.0)
    with pytest.raises(Unreachable) as cut:
        Client(api=api).deployments.act("web", action="restart", nodes=["web/0"])
    assert "the work may have begun" in cut.value.remedy


def test_a_whole_file_is_sent_again_after_a_cut(director: Callable[[Answers], Api]) -> None:
    client = Client(api=director([(CUT, None), (201, {"name": "os"})]))
    assert client.stemcells.upload(io.BytesIO(b"tarball"))["name"] == "os"
    assert [(headers["Content-Type"], body) for _, headers, body in SEEN] == [("application/gzip", b"tarball")] * 2


def test_what_has_no_key_is_not_sent_twice(director: Callable[[Answers], Api]) -> None:
    with pytest.raises(Unreachable, match="did not answer to the end"):
        Client(api=director([(CUT, None)])).deployments.change("web", team="red")
    assert len(SEEN) == 1


def test_pages_are_read_one_after_the_other(director: Callable[[Answers], Api]) -> None:
    pages = [{"items": [{"name": "a"}, {"name": "b"}], "next": "b"}, {"items": [{"name": "c"}], "next": None}]
    found = Client(api=director([(200, page) for page in [*pages, *pages]])).deployments.list()
    assert not SEEN
    rows = iter(found)
    assert next(rows)["name"] == "a" and len(SEEN) == 1
    assert [one["name"] for one in rows] == ["b", "c"]
    assert [path for path, *_ in SEEN] == ["/v1/deployments?limit=1000", "/v1/deployments?limit=1000&cursor=b"]
    assert found.listing(2) == {"items": [{"name": "a"}, {"name": "b"}], "next": "b"}
    assert SEEN[-1][0] == "/v1/deployments?limit=2"


def test_only_a_state_with_a_tag_can_be_matched(director: Callable[[Answers], Api]) -> None:
    client = Client(api=director([(200, {"name": "web"}), (200, {"name": "web"})]))
    untagged = client.deployments.get("web")
    with pytest.raises(UsageError, match="no entity tag"):
        client.deployments.change("web", team="red", if_match=untagged)
    client.deployments.change("web", team=None, if_match='"7"')
    assert SEEN[-1][1]["If-Match"] == '"7"' and json.loads(SEEN[-1][2]) == {"team": None}


def test_a_task_that_failed_is_an_error_with_its_first_cause(director: Callable[[Answers], Api]) -> None:
    error = {"what": "no host is free", "remedy": "add a host"}
    failed = {"id": 1, "kind": "deploy", "state": "failed", "report": {"failures": [{"error": error}]}}
    with pytest.raises(TaskFailed, match="task 1 \\(deploy\\) failed: no host is free") as raised:
        Client(api=director([(200, STREAM), (200, failed)])).wait(1)
    assert (raised.value.remedy, raised.value.task["state"]) == ("add a host", "failed")
    cancelled = {"id": 2, "kind": "delete", "state": "cancelled", "report": None}
    with pytest.raises(TaskFailed, match="was cancelled"):
        Client(api=director([(200, STREAM), (200, cancelled)])).wait(2)


def test_waiting_ends_when_the_time_is_up(director: Callable[[Answers], Api]) -> None:
    going_on = STREAM.partition("event: end")[0]
    with pytest.raises(TimedOut):
        Client(api=director([(200, going_on)] * 20)).wait(1, timeout=0.3)


def test_an_address_that_is_none_and_a_token_in_plain_are_refused() -> None:
    with pytest.raises(UsageError, match="no address of a Director"):
        Client("director.example.org")
    with pytest.raises(UsageError, match="unencrypted"):
        Client("http://director.example.org", token="secret")
    Client("http://director.example.org", token="secret", plain_http=True)
    Client("http://127.0.0.1:8080", token="secret")


def test_what_is_no_director_is_said_to_be_none(director: Callable[[Answers], Api]) -> None:
    with pytest.raises(ApiProblem, match="not one of a Director"):
        Client(api=director([(200, "<html>")])).director.info()
