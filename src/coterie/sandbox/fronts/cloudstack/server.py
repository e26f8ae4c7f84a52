"""HTTP around the front: the API under /client/api, templates under /upload/ and /userdata/, and what routers tell VMs
under /latest/. Listens on loopback only."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack.commands.extracts import find_extracted_size
from coterie.sandbox.fronts.cloudstack.commands.uploads import take_upload
from coterie.sandbox.fronts.cloudstack.front import Front
from coterie.sandbox.fronts.cloudstack.metadata import LATEST, answer_metadata
from coterie.sandbox.fronts.cloudstack.refusals import ApiError
from coterie.sandbox.fronts.cloudstack.template_urls import EXTRACTS
from coterie.sandbox.fronts.http_server import FrontHandler, FrontServer, Reply

PATH = "/client/api"
UPLOAD = "/upload/"
_MOST = 4 * 2**20
_CHUNK = 2**18


class Server(FrontServer):
    """Serves until closed; `endpoint` is the URL for clients."""

    def __init__(self, datacenter: Datacenter, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), _Handler)
        self.origin = f"http://{host}:{self.server_address[1]}"
        self.endpoint = self.origin + PATH
        self.front = Front(datacenter)

    def close(self) -> None:
        super().close()
        self.front.close()


class _Handler(FrontHandler):
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
            self.send(Reply(413, {}))
            return
        body = self.rfile.read(length).decode("utf-8", "replace")
        self._api(dict(parse_qsl(body, keep_blank_values=True)), post=True)

    def _api(self, form: dict[str, str], *, post: bool) -> None:
        where = urlsplit(self.path)
        if where.path.rstrip("/") != PATH:
            self.send(Reply(404, {}))
            return
        arguments = {**dict(parse_qsl(where.query, keep_blank_values=True)), **form}
        reply = self.server.front.ask(arguments, origin=self.server.origin, post=post)
        if reply.status is None:
            self.close_connection = True
            return
        self.send(Reply(reply.status, reply.body))

    def _upload(self, length: int) -> None:
        wanted = self.path.removeprefix(UPLOAD)
        try:
            headers = {name.lower(): value for name, value in self.headers.items()}
            take_upload(self.server.front.datacenter, self.server.origin, wanted, headers, self.rfile, length)
        except ApiError as error:
            self.close_connection = True  # the rest of the body was not read
            self.send(Reply(error.http, {"error": error.text}))
            return
        self.send(Reply(200, {}))

    def _raw(self, found: bytes | None) -> None:
        if found is None:
            self.send(Reply(404, {}))
            return
        self._head(200, "text/plain", len(found))
        self.wfile.write(found)

    def _extract(self, name: str) -> None:
        """As many bytes as the image had; their values are not kept."""
        size = find_extracted_size(self.server.front.datacenter, name)
        if size is None:
            self.send(Reply(404, {}))
            return
        self._head(200, "application/octet-stream", size)
        for begin in range(0, size, _CHUNK):
            self.wfile.write(bytes(min(_CHUNK, size - begin)))

    def _head(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length))
        self.end_headers()
