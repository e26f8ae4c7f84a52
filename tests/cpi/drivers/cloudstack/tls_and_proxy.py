"""A certificate authority with a TLS server, and a proxy that tunnels for those with its password."""

from __future__ import annotations

import base64
import select
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack.server import PATH, Server


class Authority:
    """A CA that no machine trusts, and one certificate of its, for 127.0.0.1 only."""

    def __init__(self, folder: Path) -> None:
        self.ca, self._chain, self._key = folder / "ca.pem", folder / "server.pem", folder / "server.key"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"]
        key, name = folder / "ca.key", "subjectAltName=IP:127.0.0.1"
        _run("req", "-x509", *curve, "-subj", "/CN=lab", "-keyout", str(key), "-out", str(self.ca))
        signed = ["-CA", str(self.ca), "-CAkey", str(key), "-addext", name, "-addext", "basicConstraints=CA:FALSE"]
        out = ["-keyout", str(self._key), "-out", str(self._chain)]
        _run("req", "-x509", *curve, "-subj", "/CN=cloud", *signed, *out)

    def server(self, datacenter: Datacenter) -> Server:
        """The cloud behind TLS; it is the caller's to close."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._chain, self._key)
        made = Server(datacenter)
        made.socket = context.wrap_socket(made.socket, server_side=True)
        made.origin = made.origin.replace("http://", "https://")
        made.endpoint = made.origin + PATH
        made.start()
        return made


class Proxy(ThreadingHTTPServer):
    """`tunnels`: the targets of its tunnels."""

    daemon_threads = True

    def __init__(self, user: str, password: str) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.tunnels: list[str] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Tunnel(BaseHTTPRequestHandler):
    server: Proxy

    def do_CONNECT(self) -> None:
        if self.headers.get("proxy-authorization") != self.server.wanted:
            self.send_error(407)
            return
        host, _, port = self.path.rpartition(":")
        self.server.tunnels.append(self.path)
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                _relay(self.connection, there)

    def log_message(self, format: str, *args: object) -> None: ...


def _relay(here: socket.socket, there: socket.socket) -> None:
    ways = {here.fileno(): (here, there), there.fileno(): (there, here)}
    waiting = select.poll()  # not select(), which takes no descriptor above 1023
    for number in ways:
        waiting.register(number, select.POLLIN)
    while True:
        for number, _ in waiting.poll():
            source, target = ways[number]
            data = source.recv(65536)
            if not data:
                return
            target.sendall(data)


def _run(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
