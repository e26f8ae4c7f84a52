"""The HTTP servers that the core process runs beside its socket, as far as they are configured."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer

from coterie.cpi_program.office import Office
from coterie.registry.server import registry_server
from coterie.stemcell.server import publishing_server
from coterie.stemcell.shelf import Shelf

_SWEEP_S = 600.0


class Shopfront:
    def __init__(self, office: Office) -> None:
        self._servers: list[ThreadingHTTPServer] = []
        self._done = threading.Event()
        config = office.config
        if config.registry:
            section = config.registry
            ledger = office.book(config).ledger
            self._start(registry_server(section.listen, ledger, section.user, section.password))
        if config.publish_server:
            front = config.publish_server
            shelf = Shelf(front.folder, front.ttl_s)
            self._start(publishing_server(front.listen, shelf, front.url, front.user, front.password))
            threading.Thread(target=self._sweep, args=(shelf,), daemon=True).start()

    def close(self) -> None:
        self._done.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _start(self, server: ThreadingHTTPServer) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def _sweep(self, shelf: Shelf) -> None:
        while not self._done.wait(_SWEEP_S):
            shelf.sweep()
