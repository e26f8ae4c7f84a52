"""HTTP around the front: the API under /client/api, templates under /upload/ and /userdata/, and what routers tell VMs
under /latest/. Listens on loopback only."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack.commands.extracts import find_extracted_size
from coterie.sandbox.fronts.cloudstack.commands.uploads import take_upload
from coterie.sandbox.fronts.cloudstack.front import Front
from coterie.sandbox.fronts.cloudstack.metadata import LATEST, answer_metadata
from coterie.sandbox.fronts.cloudstack.refusals import ApiError
from coterie.sandbox.fronts.cloudstack.template_urls import EXTRACTS

PATH = "/client/api"
UPLOAD = "/upload/"
_MOST = 4 * 2**20
_CHUNK = 2**18


class Server(ThreadingHTTPServer):
    """Serves until closed; `endpoint` is the URL for clients."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, datacenter: Datacenter, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), _Handler)
        self.origin = f"http://{host}:{self.server_address[1]}"
        self.endpoint = self.origin + PATH
        self.front = Front(datacenter)

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.front.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def do_GET(self) -> None:
        if self.path.startswith(LATEST):
            self._raw(
                answer_metadata(
                    self.server.front.datacenter, str(self.client_address[0]), self.path.removeprefix(LATEST)
                )
            )
        elif self.path.startswith(EXTRACTS):
            self._extract(self.path.removeprefix(EXTRACTS))
        else:
            self._api({}, post=False)

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        if self.path.startswith(UPLOAD):
            self._upload(length)
            return
        if length > _MOST:
            self._send(413, {})
            return
        body = self.rfile.read(length).decode("utf-8", "replace")
        self._api(dict(parse_qsl(body, keep_blank_values=True)), post=True)

    def _api(self, form: dict[str, str], *, post: bool) -> None:
        where = urlsplit(self.path)
        if where.path.rstrip("/") != PATH:
            self._send(404, {})
            return
        arguments = {**dict(parse_qsl(where.query, keep_blank_values=True)), **form}
        reply = self.server.front.ask(arguments, origin=self.server.origin, post=post)
        if reply.status is None:
            self.close_connection = True
            return
        self._send(reply.status, reply.body)

    def _upload(self, length: int) -> None:
        wanted = self.path.removeprefix(UPLOAD)
        try:
            headers = {name.lower(): value for name, value in self.headers.items()}
            take_upload(self.server.front.datacenter, self.server.origin, wanted, headers, self.rfile, length)
        except ApiError as error:
            self.close_connection = True  # the rest of the body was not read
            self._send(error.http, {"error": error.text})
            return
        self._send(200, {})

    def _raw(self, found: bytes | None) -> None:
        if found is None:
            self._send(404, {})
            return
        self._head(200, "text/plain", len(found))
        self.wfile.write(found)

    def _extract(self, name: str) -> None:
        """As many bytes as the image had; their values are not kept."""
        size = find_extracted_size(self.server.front.datacenter, name)
        if size is None:
            self._send(404, {})
            return
        self._head(200, "application/octet-stream", size)
        for begin in range(0, size, _CHUNK):
            self.wfile.write(bytes(min(_CHUNK, size - begin)))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        with suppress(ConnectionError):
            self._head(status, "application/json; charset=UTF-8", len(raw))
            self.wfile.write(raw)

    def _head(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests carry api keys: nothing of them is written anywhere."""
