"""`GET/PUT/DELETE /instances/ID/settings` with basic auth, as agents and CPIs of api_version 1 speak it."""

from __future__ import annotations

import base64
import hmac
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from coterie.ledger.rows import registry

if TYPE_CHECKING:
    from coterie.ledger.file import FileLedger
    from coterie.ledger.store import Ledger

_PATH = re.compile(r"/instances/([^/]{1,255})/settings\Z")
_LARGEST = 1 << 20
_IDLE_S = 60.0


def registry_server(listen: str, ledger: FileLedger | Ledger, user: str, password: str) -> RegistryServer:
    host, _, port = listen.rpartition(":")
    return RegistryServer((host, int(port)), ledger, f"{user}:{password}")


class RegistryServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], ledger: FileLedger | Ledger, credentials: str) -> None:
        super().__init__(address, _Handler)
        self.ledger = ledger
        self.authorization = "Basic " + base64.b64encode(credentials.encode()).decode()


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer
    protocol_version = "HTTP/1.1"
    server_version = "coterie"
    sys_version = ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        instance = self._instance()
        if instance is None:
            return
        with self.server.ledger.read() as tx:
            settings = registry.get(tx, instance)
        if settings is None:
            self._answer(404, {"status": "not_found"})
        else:
            # The document travels as text inside the document: that is how agents read it.
            self._answer(200, {"status": "ok", "settings": settings})

    def do_PUT(self) -> None:
        instance = self._instance()
        if instance is None:
            return
        settings = self._body()
        if settings is None:
            return
        with self.server.ledger.write() as tx:
            fresh = registry.get(tx, instance) is None
            registry.put(tx, instance, settings)
        self._answer(201 if fresh else 200, {"status": "ok"})

    def do_DELETE(self) -> None:
        instance = self._instance()
        if instance is None:
            return
        with self.server.ledger.write() as tx:
            registry.delete(tx, instance)
        self._answer(200, {"status": "ok"})

    def _instance(self) -> str | None:
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), self.server.authorization.encode()):
            self._refuse(401, "access_denied", **{"WWW-Authenticate": 'Basic realm="registry"'})
            return None
        found = _PATH.match(unquote(self.path))
        if found is None:
            self._refuse(404, "not_found")
            return None
        return found[1]

    def _body(self) -> str | None:
        length = self.headers.get("Content-Length", "")
        sized = length.isascii() and length.isdigit() and "Transfer-Encoding" not in self.headers
        if not sized or int(length) > _LARGEST:
            self._refuse(413 if sized else 411, "the settings need a Content-Length of at most 1 MiB")
            return None
        raw = self.rfile.read(int(length))
        try:
            json.loads(raw)
            return raw.decode("utf-8")
        except (ValueError, RecursionError):
            self._refuse(400, "the settings are not JSON")
            return None

    def _refuse(self, status: int, words: str, **headers: str) -> None:
        self.close_connection = True
        self._answer(status, {"status": words}, Connection="close", **headers)

    def _answer(self, status: int, document: dict[str, Any], **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are routine, and their paths may be secret."""
