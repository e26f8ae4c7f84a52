"""One request to a cloud: its token, its pace, the lease before it, and what is said where no answer comes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from coterie.cpi.contract import AuthenticationFailed, OutcomeUnknown, Unavailable
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.http import Http, HttpOptions
from coterie.cpi.kit.http_calls import HttpCalls, json_request
from coterie.cpi.kit.permit import Permit
from coterie.slotted import replace


class Peer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens: list[str] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Peer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        self.server.tokens.append(self.headers["Authorization"])
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        status = 401 if self.headers["Authorization"] == "Bearer 1" else 429 if self.path == "/busy" else 200
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None: ...


class Tokens:
    """Numbers; none of them is given again when it was refused."""

    def __init__(self, first: int) -> None:
        self.last = first

    def token(self, refused: str | None) -> str:
        self.last += 1 if refused else 0
        return str(self.last)


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.shutdown()
    made.server_close()


def calls(lease: list[str], first_token: int = 2) -> HttpCalls:
    http = Http(HttpOptions(connect_timeout=2.0, request_timeout=2.0))
    permit = Permit("director", CallLimit(2), lambda: lease.append("looked"))
    return HttpCalls(http, permit, Tokens(first_token).token, "The cloud", "look at the line")


def test_a_refused_token_is_replaced_once_and_the_body_sent_again(peer: Peer) -> None:
    raw, headers = json_request({"size": 1})
    answer = calls([], 1).send("make it", "POST", peer.url, headers, raw, pace="writes", changes=True)
    assert answer.status == 200
    assert peer.tokens == ["Bearer 1", "Bearer 2"]
    assert [json.loads(body) for body in peer.bodies] == [{"size": 1}] * 2


def test_a_second_refusal_is_the_answer(peer: Peer) -> None:
    refused = replace(calls([]), token=lambda refused: "1")
    assert refused.send("ask", "GET", peer.url, {}, None, pace="reads", changes=False).status == 401
    assert len(peer.tokens) == 2


def test_where_there_is_no_other_token_the_refusal_of_the_cloud_is_the_answer(peer: Peer) -> None:
    def token(refused: str | None) -> str:
        if refused:
            raise AuthenticationFailed("no other", remedy="check it")
        return "1"

    answer = replace(calls([]), token=token).send("ask", "GET", peer.url, {}, None, pace="reads", changes=False)
    assert answer.status == 401


def test_the_lease_is_looked_at_before_a_change_only(peer: Peer) -> None:
    lease: list[str] = []
    calls(lease).send("ask", "GET", peer.url, {}, None, pace="reads", changes=False)
    assert lease == []
    calls(lease).send("make it", "POST", peer.url, {}, None, pace="writes", changes=True)
    assert lease == ["looked"]


def test_a_throttled_call_slows_down_its_class_and_no_other(peer: Peer) -> None:
    one = calls([])
    assert one.send("ask", "GET", f"{peer.url}/busy", {}, None, pace="lists", changes=False).status == 429
    again = threading.Thread(
        target=lambda: one.send("ask", "GET", f"{peer.url}/list", {}, None, pace="lists", changes=False)
    )
    again.start()
    one.send("ask", "GET", f"{peer.url}/read", {}, None, pace="reads", changes=False)
    again.join()
    assert peer.paths == ["/busy", "/read", "/list"]


def test_without_an_answer_a_question_is_unanswered_and_a_change_in_doubt(peer: Peer) -> None:
    peer.shutdown()  # its port still takes connections, and nothing answers
    one = replace(calls([]), http=Http(HttpOptions(request_timeout=0.2)))
    with pytest.raises(Unavailable):
        one.send("ask", "GET", peer.url, {}, None, pace="reads", changes=False)
    with pytest.raises(OutcomeUnknown):
        one.send("make it", "POST", peer.url, {}, None, pace="writes", changes=True)
    peer.server_close()
    with pytest.raises(Unavailable, match="The cloud") as caught:
        one.send("make it", "POST", peer.url, {}, None, pace="writes", changes=True)
    assert caught.value.remedy == "look at the line"
