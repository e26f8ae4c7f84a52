"""The HTTP servers that the core process runs beside its socket, as far as they are configured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from coterie.bosh.core.service import Office
from coterie.bosh.sections import Publish, Registry
from coterie.errors import CoterieError
from coterie.ledger.store import Ledger
from coterie.registry.server import registry_server
from coterie.stemcell.server import publishing_server
from coterie.stemcell.shelf import Shelf

_SWEEP_S = 600.0


class Shopfront:
    def __init__(self, office: Office) -> None:
        self._servers: list[ThreadingHTTPServer] = []
        self._done = threading.Event()
        config = office.config
        try:
            if config.registry:
                self._open_registry(config.registry, office.book(config).ledger)
            if config.publish_server:
                self._open_shelf(config.publish_server)
        except CoterieError:
            self.close()
            raise

    def close(self) -> None:
        self._done.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _open_registry(self, section: Registry, ledger: Ledger) -> None:
        with _named("registry.listen", section.listen):
            self._start(registry_server(section.listen, ledger, section.user, section.password))

    def _open_shelf(self, section: Publish) -> None:
        shelf = Shelf(section.folder, section.ttl_s)
        with _named("publish_server.listen", section.listen):
            self._start(publishing_server(section.listen, shelf, section.url, section.user, section.password))
        threading.Thread(target=self._sweep, args=(shelf,), daemon=True).start()

    def _start(self, server: ThreadingHTTPServer) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def _sweep(self, shelf: Shelf) -> None:
        while not self._done.wait(_SWEEP_S):
            shelf.sweep()


@contextmanager
def _named(setting: str, listen: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CoterieError(
            f"{setting}: nothing can listen on {listen}",
            why=str(error.strerror),
            remedy=f"set {setting} in the configuration to an address of this machine with a free port",
        ) from None
