"""The ways in which a request ends: an answer, certainly not taken, perhaps taken."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.peers.ports import free_port

from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, Unavailable
from coterie.cpi.kit.http import (
    Answer,
    AnswerLost,
    Body,
    Http,
    HttpOptions,
    NotTaken,
    ask_patiently,
    call_error,
    tls_context,
)


class Peer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[Any] = set()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Peer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        self.server.connections.add(self.client_address)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.seen.append((self.command, self.path, self._body()))
        if self.path == "/lost":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        moved = {"/moved": (302, "/there"), "/moved-307": (307, "/there"), "/away": (307, "http://127.0.0.1:9/")}
        status, target = moved.get(self.path, (200, ""))
        self.send_response(status)
        if target:
            self.send_header("Location", target)
        if self.path == "/last":
            self.send_header("Connection", "close")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = do_PUT = _serve

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return data

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.shutdown()
    made.server_close()


def test_a_thread_uses_one_connection_as_long_as_it_is_open(peer: Peer) -> None:
    http = Http(HttpOptions())
    assert http.request("GET", f"{peer.url}/a?b=c").body == b"ok"
    assert http.request("POST", f"{peer.url}/a", {"X": "y"}, b"body").status == 200
    assert len(peer.connections) == 1
    http.request("GET", f"{peer.url}/last")
    http.request("GET", f"{peer.url}/a")
    assert len(peer.connections) == 2
    assert peer.seen[:2] == [("GET", "/a?b=c", b""), ("POST", "/a", b"body")]


def test_a_body_can_come_in_pieces(peer: Peer) -> None:
    Http(HttpOptions()).request("PUT", f"{peer.url}/file", body=iter([b"one", b"two"]))
    assert peer.seen == [("PUT", "/file", b"onetwo")]


def test_no_connection_is_certainly_not_taken() -> None:
    url = f"http://127.0.0.1:{free_port()}/"
    with pytest.raises(NotTaken) as caught:
        Http(HttpOptions()).request("POST", url)
    assert type(call_error(caught.value, what="make it", cloud="X", changes=True)) is Unavailable


def test_an_answer_that_does_not_come_is_perhaps_taken(peer: Peer) -> None:
    with pytest.raises(AnswerLost) as caught:
        Http(HttpOptions()).request("POST", f"{peer.url}/lost")
    assert type(call_error(caught.value, what="make it", cloud="X", changes=True)) is OutcomeUnknown
    assert type(call_error(caught.value, what="look", cloud="X", changes=False)) is Unavailable


def test_a_connection_that_the_other_side_closed_is_not_used_again(peer: Peer) -> None:
    http = Http(HttpOptions())
    with suppress(AnswerLost):
        http.request("GET", f"{peer.url}/lost")
    assert http.request("GET", f"{peer.url}/a").status == 200


def test_a_time_out_after_the_request_was_sent_is_perhaps_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(AnswerLost, match="timed out"):
            Http(HttpOptions(request_timeout=0.1)).request("POST", url)


@pytest.mark.parametrize(
    ("method", "path", "body", "is_followed"),
    [
        ("GET", "/moved", None, True),
        ("POST", "/moved", b"x", False),  # it would be a GET, or a change sent twice
        ("POST", "/moved-307", b"x", True),
        ("PUT", "/moved-307", iter([b"x"]), False),  # used up by the first request
        ("GET", "/away", None, False),  # another port of the same host
    ],
)
def test_a_redirection_is_followed_where_it_is_safe(
    peer: Peer, method: str, path: str, body: Body, is_followed: bool
) -> None:
    options = HttpOptions(follow_redirects=True)
    Http(options).request(method, f"{peer.url}{path}", {"Authorization": "secret"}, body)
    assert [(verb, at) for verb, at, _ in peer.seen] == [(method, path), *([(method, "/there")] if is_followed else [])]


def test_no_redirection_is_followed_unless_that_is_wanted(peer: Peer) -> None:
    answer = Http(HttpOptions()).request("POST", f"{peer.url}/moved-307", {"Authorization": "secret"}, b"x")
    assert (answer.status, len(peer.seen)) == (307, 1)


def test_a_proxy_gets_the_whole_url_and_its_own_password(peer: Peer) -> None:
    options = HttpOptions(proxy_url=peer.url.replace("//", "//us:w%40rd@"))
    Http(options).request("GET", "http://cloud.invalid/v3/x?y=z")
    assert peer.seen == [("GET", "http://cloud.invalid/v3/x?y=z", b"")]
    assert peer.headers[0]["proxy-authorization"] == "Basic dXM6d0ByZA=="
    assert "w%40rd" not in repr(options)


def test_the_environments_proxy_is_used_only_if_that_is_wanted(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", peer.url)
    monkeypatch.setenv("no_proxy", "direct.invalid")
    Http(HttpOptions(environment_proxy=True)).request("GET", "http://cloud.invalid/")
    assert len(peer.seen) == 1
    for options, host in ((HttpOptions(environment_proxy=True), "direct"), (HttpOptions(), "cloud")):
        with pytest.raises(NotTaken):
            Http(options).request("GET", f"http://{host}.invalid/")
    assert len(peer.seen) == 1


@pytest.mark.parametrize(
    ("no_proxy", "is_direct"), [("10.0.0.0/8, 127.0.0.0/8", True), ("127.0.0.1", True), ("10.0.0.0/8,x/y", False)]
)
def test_networks_of_no_proxy_are_reached_directly(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, no_proxy: str, is_direct: bool
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", peer.url)
    monkeypatch.setenv("no_proxy", no_proxy)
    Http(HttpOptions(environment_proxy=True)).request("GET", f"{peer.url}/a")
    assert peer.seen[0][1] == ("/a" if is_direct else f"{peer.url}/a")


@pytest.mark.parametrize("proxy", ["https://proxy.invalid:3129", "socks5://user:s3cret@proxy.invalid"])
def test_a_proxy_of_another_scheme_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    for options in (HttpOptions(environment_proxy=True), HttpOptions(proxy_url=proxy)):
        with pytest.raises(CpiError, match=r"has the scheme (https|socks5)$") as caught:
            Http(options).request("GET", "http://cloud.invalid/")
        assert "http://user" in caught.value.remedy and "s3cret" not in str(caught.value.facts())


def test_a_ca_counts_only_where_certificates_are_checked() -> None:
    with pytest.raises(CpiError, match="ca_cert cannot be read"):
        tls_context("/nowhere.pem")
    assert tls_context("/nowhere.pem", insecure=True).verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(("given", "seconds"), [("7", 7.0), ("", None), ("soon", None), (formatdate(0), 0.0)])
def test_retry_after_is_read_in_both_forms(given: str, seconds: float | None) -> None:
    assert Answer(429, {"retry-after": given}, b"").retry_after == seconds


def test_a_question_is_repeated_while_the_error_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr("coterie.cpi.kit.http.time.sleep", rests.append)
    errors: list[Exception] = [Unavailable("away", remedy="wait"), Throttled("busy", remedy="wait")]

    def ask() -> str:
        if errors:
            raise errors.pop(0)
        return "answer"

    def rest_after(error: Exception, usual: float) -> float | None:
        return 9.0 if isinstance(error, Throttled) else usual

    assert ask_patiently(ask, retries=5, first_rest_s=0.5, rest_after=rest_after) == "answer"
    assert rests == [0.5, 9.0]
    errors.append(ValueError("final"))
    with pytest.raises(ValueError, match="final"):
        ask_patiently(ask, retries=5, first_rest_s=0.5, rest_after=lambda error, usual: None)


@pytest.mark.parametrize(("body", "found"), [(b'{"a": 1}', {"a": 1}), (b"", {}), (b"<html>", {}), (b"[1]", {})])
def test_an_answer_that_is_no_json_object_is_an_empty_one(body: bytes, found: dict[str, Any]) -> None:
    assert Answer(200, {}, body).document() == found
