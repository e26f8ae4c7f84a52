"""Connections of clients: accepted up to a limit, and closed when a client sends or reads too slowly.

A client needs no token to connect. So the connections that wait for a request give way to new ones, and an accept
that fails is repeated after a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)
HEAD_S = 10.0  # from the first byte of a request, or the beginning of a connection, to the end of its headers
WRITE_S = 60.0  # that a client may leave a full buffer unread; an event stream sends something every ten seconds
_MOST = 4096
_DESCRIPTORS = 65536
_PAUSE_S = 0.2
_LOG_S = 60.0


def connection_limit() -> int:
    """Half of the descriptors that this process may open: files and databases need some. Raises the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # forbidden here: then the limit stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return min(_MOST, soft // 2) if soft != resource.RLIM_INFINITY else _MOST


class Acceptor:
    """Accepts connections of one listener. `protocol`: makes the protocol of a connection."""

    def __init__(
        self, listener: socket.socket, tls: ssl.SSLContext | None, limit: int, protocol: Callable[[], Protocol]
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._limit = limit
        self._protocol = protocol
        self._open: dict[Protocol, asyncio.Task[None]] = {}  # oldest first
        self._logged = -_LOG_S
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        self._task = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Accept no more; connections go on."""
        ending = [opening for protocol, opening in self._open.items() if protocol.transport is None]
        ending += [self._task] if self._task is not None else []
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue
            except OSError as error:  # no descriptor or no memory is left
                self._warn("cannot accept connections: %s", error.strerror)
                self._close_oldest_waiting()
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self._open) >= self._limit and not self._close_oldest_waiting():
                self._warn("%s connections are busy: refusing new ones", self._limit)
                client.close()
                continue
            protocol = self._protocol()
            self._open[protocol] = loop.create_task(self._begin(protocol, client))

    async def _begin(self, protocol: Protocol, client: socket.socket) -> None:
        protocol.on_lost = self._forget
        timeout = HEAD_S if self._tls else None
        try:
            client.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, client, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except (OSError, asyncio.CancelledError):
            client.close()  # no TLS within the time, or closed meanwhile
            self._forget(protocol)

    def _close_oldest_waiting(self) -> bool:
        for protocol, opening in self._open.items():
            if protocol.is_waiting:
                protocol.abort(opening)
                self._forget(protocol)
                return True
        return False

    def _forget(self, protocol: Protocol) -> None:
        self._open.pop(protocol, None)

    def _warn(self, words: str, what: object) -> None:
        if time.monotonic() - self._logged >= _LOG_S:
            self._logged = time.monotonic()
            log.warning(words, what)


class Protocol(H11Protocol):
    """HTTP/1.1 with a limit on the time for the headers of a request, and on the time that a client does not read."""

    transport: Any  # None until the connection is made

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.on_lost: Callable[[Protocol], None] = lambda protocol: None
        self._head = _Timer(HEAD_S, self._give_up_head)
        self._unread = _Timer(WRITE_S, lambda: self.transport.abort())

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def abort(self, opening: asyncio.Task[None]) -> None:
        if self.transport is None:
            opening.cancel()
        else:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in H11Protocol
        super().connection_made(transport)
        self._head.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._unread.stop()
        super().connection_lost(exc)
        self.on_lost(self)

    def data_received(self, data: bytes) -> None:
        if self.is_waiting:
            self._head.start()
        super().data_received(data)
        if not self.is_waiting:
            self._head.stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.stop()

    def _give_up_head(self) -> None:
        if self.is_waiting:
            self.transport.abort()


class _Timer:
    """Calls once, a time after `start`, unless stopped before. Started again while it runs, it goes on as it was."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self._seconds = seconds
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._ring)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        self._call()
