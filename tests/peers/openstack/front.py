"""A door before all services, which a client enters by Keystone's address: it counts calls and bends some of them.

Every address that a service names in an answer (the catalogue, links, pages) is replaced by one behind the door.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_OF_THE_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
_NOT_FOUND = 404
_UNAUTHORIZED = 401


@dataclass(frozen=True)
class Call:
    service: str
    verb: str
    path: str  # with the query
    status: int | None  # None: the answer was not given


@dataclass
class Rule:
    """Bends the next calls that match: `refuse` and `hang` do nothing; `lose` and `stall` do the work and do not say
    so; `late` hides for a while what the call made; `omit` empties the lists of an answer, as when a cell is down."""

    service: str
    verb: str
    path: str  # a pattern, for the whole path without the query
    action: str
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.3
    times: int = 1

    def fits(self, service: str, verb: str, path: str) -> bool:
        return self.times > 0 and (service, verb) == (self.service, self.verb) and bool(re.fullmatch(self.path, path))


class Front(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: dict[str, str], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._scheme = "https" if tls else "http"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.upstream = upstream
        self.metadata: dict[str, Any] | None = None  # what a VM that asks is told about itself
        self.calls: list[Call] = []
        self._rules: list[Rule] = []
        self._hidden: dict[str, float] = {}
        self._tokens: set[str] = set()
        self._ended: set[str] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def origin(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def auth_url(self) -> str:
        return f"{self.origin}/keystone/v3"

    def bend(self, service: str, verb: str, path: str, action: str, **more: Any) -> None:
        with self._lock:
            self._rules.append(Rule(service, verb, path, action, **more))

    def straighten(self) -> None:
        with self._lock:
            self._rules.clear()
            self._hidden.clear()

    def expire(self) -> None:
        """Ends all tokens that were used or given so far."""
        with self._lock:
            self._ended |= self._tokens

    def forget(self) -> None:
        self.calls.clear()

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    # -- for the handler --

    def bent(self, service: str, verb: str, path: str) -> dict[str, Rule]:
        """The first rule of every action that fits; each is used up by one."""
        with self._lock:
            found: dict[str, Rule] = {}
            for rule in self._rules:
                if rule.action not in found and rule.fits(service, verb, path):
                    rule.times -= 1
                    found[rule.action] = rule
            return found

    def seen(self, token: str | None) -> bool:
        """Whether it is still good."""
        with self._lock:
            if token:
                self._tokens.add(token)
            return token not in self._ended

    def hide(self, body: bytes, seconds: float) -> None:
        ids = [one["id"] for one in json.loads(body).values() if isinstance(one, dict) and "id" in one]
        with self._lock:
            self._hidden.update(dict.fromkeys(ids, time.monotonic() + seconds))

    def hidden(self) -> set[str]:
        now = time.monotonic()
        with self._lock:
            return {one for one, until in self._hidden.items() if until > now}

    def readdressed(self, text: bytes) -> bytes:
        for name, url in self.upstream.items():
            text = text.replace(url.encode(), f"{self.origin}/{name}".encode())
        return text


class _Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        self._service, self._rest = "metadata", self.path
        if self.path == "/metadata":
            known = self.server.metadata
            self._send(200 if known else _NOT_FOUND, {}, json.dumps(known or {}).encode())
            return
        _, service, rest = self.path.split("/", 2) if self.path.count("/") > 1 else ("", self.path[1:], "")
        self._service, self._rest = service, f"/{rest}"
        self._answer(service, self._rest, self._body())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _serve

    def _note(self, status: int | None) -> None:
        """Before anything is sent: once a client has its answer, the call is counted."""
        self.server.calls.append(Call(self._service, self.command, self._rest, status))

    def _answer(self, service: str, path: str, body: bytes | None) -> None:
        front, bare = self.server, path.partition("?")[0]
        if not front.seen(self.headers.get("X-Auth-Token")):
            return self._send(_UNAUTHORIZED, {}, b'{"error": {"message": "the token ended"}}')
        rules = front.bent(service, self.command, bare)
        if "refuse" in rules:
            rule = rules["refuse"]
            return self._send(rule.status, rule.headers, b'{"fault": {"message": "bent by the test"}}')
        if "hang" in rules:
            return self._vanish(rules["hang"].seconds)
        if front.hidden() & set(bare.split("/")):
            return self._send(_NOT_FOUND, {}, b'{"itemNotFound": {"message": "not yet"}}')
        status, headers, found = self._forward(service, path, body)
        front.seen(headers.get("X-Subject-Token"))
        if "late" in rules:
            front.hide(found, rules["late"].seconds)
        if "lose" in rules:
            return self._vanish(0)
        if "stall" in rules:
            return self._vanish(rules["stall"].seconds)
        if "omit" in rules:
            found = json.dumps({key: [] for key in json.loads(found)}).encode()
        return self._send(status, headers, front.readdressed(_without(found, front.hidden())))

    def _body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._chunk, b""))
        length = self.headers.get("Content-Length")
        return self.rfile.read(int(length)) if length else None

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _forward(self, service: str, path: str, body: bytes | None) -> tuple[int, dict[str, str], bytes]:
        where = urlsplit(self.server.upstream[service])
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _OF_THE_HOP}
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=300)
        try:
            connection.request(self.command, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, dict(answer.headers.items()), text
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self._note(status)
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in _OF_THE_HOP:
                self.send_header(key, self.server.readdressed(value.encode()).decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):  # the client gave up
                self.wfile.write(body)

    def _vanish(self, seconds: float) -> None:
        self._note(None)
        time.sleep(seconds)
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None: ...


def _without(body: bytes, hidden: set[str]) -> bytes:
    """Lists without what does not show yet."""
    if not hidden or not any(one.encode() in body for one in hidden):
        return body
    found = json.loads(body)
    for key, rows in found.items():
        if isinstance(rows, list):
            found[key] = [row for row in rows if not (isinstance(row, dict) and row.get("id") in hidden)]
    return json.dumps(found).encode()
