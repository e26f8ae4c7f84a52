"""Everything that answering needs, opened on first use and kept: configuration, drivers, ledger."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, cast

from coterie.bosh.config import Config, load
from coterie.bosh.overrides import Caller, caller, with_context
from coterie.bosh.recording.marks import fresh
from coterie.bosh.recording.recording_cpi import Booked
from coterie.cpi.contract import Cpi, Json, Mark, Runtime
from coterie.cpi.load import open_cloud
from coterie.cpi.wire import Redactor, answer

if TYPE_CHECKING:
    from coterie.bosh.recording.local_ledger import Book

_OPEN_DRIVERS = 64


class Office:
    """`core`: this process outlives the call, so it can serve the registry to machines."""

    def __init__(self, config: str, *, core: bool = False) -> None:
        self._path = config
        self._config: Config | None = None
        self._core = core
        self._books: dict[str, Book] = {}
        self._drivers: dict[str, Cpi] = {}
        self._turn = threading.RLock()

    def answer(self, request: bytes) -> bytes:
        """One envelope, without the secrets of the request and of the configuration."""
        return self._veiled(answer(request, self.open_cpi, _new_mark, _cleanup))

    @property
    def config(self) -> Config:
        with self._turn:
            if self._config is None:
                self._config = load(self._path)
            return self._config

    def open_cpi(self, context: Json) -> Cpi:
        config, who = with_context(self.config, context), caller(context)
        book = self.book(config)
        return cast(Cpi, Booked(self._driver(config, who, book), book, config, who, core=self._core))

    def book(self, config: Config) -> Book:
        from coterie.bosh.recording.local_ledger import Book

        with self._turn:
            if config.ledger not in self._books:
                self._books[config.ledger] = Book(config.ledger, config.lease_s)
            return self._books[config.ledger]

    def close(self) -> None:
        for book in self._books.values():
            book.close()

    def _driver(self, config: Config, who: Caller, book: Book) -> Cpi:
        key = json.dumps(
            [config.driver, config.cloud, config.properties, who.director_uuid], sort_keys=True, default=str
        )
        with self._turn:
            if key not in self._drivers:
                if len(self._drivers) >= _OPEN_DRIVERS:
                    self._drivers.clear()
                runtime = Runtime(who.director_uuid, book.coordinator)
                self._drivers[key] = open_cloud(config.driver, config.cloud, _handed(config), runtime)
            return self._drivers[key]

    def _veiled(self, envelope: bytes) -> bytes:
        if not envelope.startswith(b'{"result":null,"error":{') or self._config is None:
            return envelope
        document = json.loads(envelope)
        error, hidden = document["error"], Redactor(_secrets(self._config)).hide_all(document["error"])
        hidden["type"] = error["type"]
        if "coterie" in error:
            hidden["coterie"]["code"] = error["coterie"]["code"]
        return json.dumps({**document, "error": hidden}).encode()


def _handed(config: Config) -> Json:
    """A driver that publishes through our server is told where that is."""
    server = config.publish_server
    if server is None or config.properties.get("publish_mode") != "server":
        return config.properties
    told = {"publish_url": server.url, "publish_user": server.user, "publish_password": server.password}
    return {**told, **config.properties}


def _secrets(config: Config) -> list[Any]:
    server, registry = config.publish_server, config.registry
    passwords = [{"password": one.password} for one in (server, registry) if one]
    return [config.properties, *passwords, {"url": config.ledger}]


def _new_mark(method: str, arguments: list[Any], context: Json) -> Mark:
    return fresh(method, arguments, context)


def _cleanup(cpi: Cpi, director_uuid: str, known: Any, options: Json) -> Json:
    from coterie.bosh.recording.cleanup import cleanup

    return cleanup(cast(Booked, cpi).desk, director_uuid, known, options)
