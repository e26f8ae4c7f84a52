"""The publishing server: authenticated PUT and DELETE for us, expiring links with ranges for the cloud's storage VMs.

Plain HTTP verbs as any WebDAV client speaks them; bodies are streamed, so memory does not grow with the image.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from coterie.errors import CoterieError
from coterie.stemcell.links import sign, verify
from coterie.stemcell.ranges import Span, Unsatisfiable, read_range
from coterie.stemcell.shelf import Shelf

_CHUNK = 1 << 20
_IDLE_S = 60.0


def publishing_server(listen: str, shelf: Shelf, url: str, user: str, password: str) -> PublishingServer:
    host, _, port = listen.rpartition(":")
    return PublishingServer((host, int(port)), shelf, url, f"{user}:{password}")


class PublishingServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], shelf: Shelf, url: str, credentials: str) -> None:
        super().__init__(address, _Handler)
        self.shelf = shelf
        self.url = url.rstrip("/")
        self.authorization = "Basic " + base64.b64encode(credentials.encode()).decode()

    def link(self, name: str) -> tuple[str, int]:
        expires = int(time.time() + self.shelf.ttl_s)
        return self.url + sign(self.shelf.key, name, expires), expires


class _Handler(BaseHTTPRequestHandler):
    server: PublishingServer
    protocol_version = "HTTP/1.1"
    server_version = "coterie"
    sys_version = ""
    timeout = _IDLE_S

    def do_PUT(self) -> None:
        name = self._image()
        if name is None:
            return
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._close(411, "send a Content-Length, and no Transfer-Encoding")
            return
        try:
            made = self.server.shelf.put(name, self.rfile, int(length), self.headers.get("X-Checksum-Sha256"))
        except CoterieError as error:
            self._close(400, f"{error}; {error.remedy}")
            return
        url, expires = self.server.link(made.name)
        answer = {"url": url, "expires": expires, "sha256": made.sha256, "size": made.size}
        self._answer(201, json.dumps(answer).encode())

    def do_DELETE(self) -> None:
        name = self._image()
        if name is not None:
            self._answer(204 if self.server.shelf.remove(name) else 404, b"")

    def do_OPTIONS(self) -> None:
        self._answer(200, b"", Allow="OPTIONS, GET, HEAD, PUT, DELETE")

    def do_HEAD(self) -> None:
        self._download(body=False)

    def do_GET(self) -> None:
        self._download(body=True)

    def _image(self) -> str | None:
        """The name in /images/NAME if the caller may write; otherwise answers with the refusal."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), self.server.authorization.encode()):
            self._close(401, "user and password are needed", **{"WWW-Authenticate": 'Basic realm="images"'})
            return None
        stem, _, name = unquote(self.path).rpartition("/")
        if stem == "/images" and name:
            return name
        self._close(404, "images are written below /images/")
        return None

    def _download(self, *, body: bool) -> None:
        path = self._find_linked()
        if path is None:
            return
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                span = read_range(self.headers.get("Range"), size)
                self._head(size, span)
                if body:
                    self._send(file, span or Span(0, size - 1))
        except Unsatisfiable:
            self._answer(416, b"", **{"Content-Range": f"bytes */{path.stat().st_size}"})
        except FileNotFoundError:
            self._answer(404, b"")

    def _find_linked(self) -> Path | None:
        parts = unquote(self.path).split("/")
        good = len(parts) == 5 and parts[1] == "i"
        verdict = verify(self.server.shelf.key, parts[2], parts[3], parts[4], time.time()) if good else False
        path = self.server.shelf.find(parts[4]) if verdict else None
        if path is None:
            self._answer(410 if verdict is None else 404, b"")
        return path

    def _head(self, size: int, span: Span | None) -> None:
        self.send_response(206 if span else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(span.length if span else size))
        if span:
            self.send_header("Content-Range", f"bytes {span.start}-{span.end}/{size}")
        self.end_headers()

    def _send(self, file: Any, span: Span) -> None:
        file.seek(span.start)
        left = span.length
        while left and (piece := file.read(min(_CHUNK, left))):
            self.wfile.write(piece)
            left -= len(piece)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    def _close(self, status: int, words: str, **headers: str) -> None:
        """Refuse without reading the body, which may be gigabytes."""
        self.close_connection = True
        self._answer(status, words.encode(), Connection="close", **headers)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the path is a secret link."""
