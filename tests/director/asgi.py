"""Calls an ASGI application in this process; its event loop runs in a thread, so that streams can be read live."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from coterie.director.app import build
from coterie.director.context import AppContext


@cache
def openapi_document() -> dict[str, Any]:
    """Of the whole API; no context is needed to describe it. Not to be changed: all tests read the same."""
    return build(cast(AppContext, None)).openapi()


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    def __init__(self, app: Any) -> None:
        self.speaks: str | None = "latest"
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, headers=headers)

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        raw, given = _encoded(body, dict(headers or {}))
        messages: list[Any] = []

        async def keep(message: Any) -> None:
            messages.append(message)

        scope = _scope(method, path, self._api_version(given))
        asyncio.run_coroutine_threadsafe(self._app(scope, _receiver(raw), keep), self._loop).result(60)
        data = b"".join(m.get("body", b"") for m in messages if m["type"] == "http.response.body")
        return Reply(messages[0]["status"], _headers(messages[0]), data)

    def _api_version(self, headers: dict[str, str]) -> dict[str, str]:
        return headers if self.speaks is None else {"coterie-api-version": self.speaks, **headers}

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[str]]:
        """The blocks of an event stream, as they come."""
        arrived: queue.Queue[str | None] = queue.Queue()
        given = {"accept": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}

        async def keep(message: Any) -> None:
            if message["type"] == "http.response.body":
                arrived.put(message.get("body", b"").decode())

        async def run() -> None:
            try:
                await self._app(_scope("GET", path, self._api_version(given)), _receiver(b""), keep)
            finally:
                arrived.put(None)

        task = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            yield _blocks(arrived)
        finally:
            task.cancel()


def _blocks(arrived: queue.Queue[str | None]) -> Iterator[str]:
    pending = ""
    while (part := arrived.get(timeout=60)) is not None:
        *whole, pending = (pending + part).split("\n\n")
        yield from whole


def _encoded(body: Any, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    given = {name.lower(): value for name, value in headers.items()}
    if body is None or isinstance(body, bytes):
        return body or b"", given
    return json.dumps(body).encode(), {"content-type": "application/json", **given}


def _scope(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    where, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "server": ("test", 80),
        "client": ("test", 1),
    }


def _receiver(raw: bytes) -> Any:
    """A client that stays until it has its answer."""
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": raw, "more_body": False}

    return receive


def _headers(start: Any) -> dict[str, str]:
    return {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
