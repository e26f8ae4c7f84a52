"""How a connection to a Director is opened: TCP, with TLS or without, or a unix socket."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from coterie.errors import Unreachable, UsageError
from coterie.sockets import is_loopback, short_socket_path

Connection = http.client.HTTPConnection


class Route(Protocol):
    """Opens connections. If one cannot be opened, raises an error with a remedy, or starts what shall answer."""

    token: str | None
    prefix: str

    def open(self, timeout: float) -> Connection: ...

    def close(self) -> None: ...


def route_of(
    url: str,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
    plain_http: bool = False,
    origin: str = "the caller",
) -> Route:
    """The route to a URL: https://…, http://… or unix:PATH. `origin` says in errors where the URL comes from."""
    if url.startswith("unix:"):
        return UnixRoute(Path(url.removeprefix("unix:")), origin)
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(
            f"{url!r} is no address of a Director",
            why=f"it comes from {origin}",
            remedy="write https://HOST:PORT, http://HOST:PORT or unix:PATH",
        )
    if token is not None and not plain_http:
        _require_safe(url, origin)
    return TcpRoute(url, origin, token, Path(ca) if ca else None)


def _require_safe(url: str, origin: str) -> None:
    """A token may travel through TLS, or on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return
    raise UsageError(
        f"the token would travel unencrypted to {url}",
        why=f"the address comes from {origin}",
        remedy="use https://; where the way is safe by other means, set plain_http (COTERIE_PLAIN_HTTP=true)",
    )


class TcpRoute:
    def __init__(self, url: str, origin: str, token: str | None, ca: Path | None = None) -> None:
        parts = urlsplit(url)
        self._url, self._origin = url, origin
        self._host, self._port = parts.hostname or "", parts.port
        self._secure = parts.scheme == "https"
        self._ca = ca
        self.prefix = parts.path
        self.token = token

    def open(self, timeout: float) -> Connection:
        connection = self._connection(timeout)
        try:
            connection.connect()
        except OSError as error:
            raise unreachable(self._url, self._origin, error) from error
        return connection

    def _connection(self, timeout: float) -> Connection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        import ssl

        try:
            context = ssl.create_default_context(cafile=str(self._ca) if self._ca else None)
        except OSError as error:
            raise UsageError(
                f"cannot use the certificates in {self._ca}", why=error.strerror or str(error), remedy="check --ca"
            ) from error
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)

    def close(self) -> None:
        pass


class UnixRoute:
    token: str | None = None
    prefix = ""

    def __init__(self, path: Path, origin: str) -> None:
        self._path, self._origin = path, origin

    def open(self, timeout: float) -> Connection:
        try:
            return connect_unix(self._path, timeout)
        except OSError as error:
            raise unreachable(f"unix:{self._path}", self._origin, error) from error

    def close(self) -> None:
        pass


def connect_unix(path: Path, timeout: float) -> Connection:
    connection = http.client.HTTPConnection("localhost", timeout=timeout)
    connection_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection_socket.settimeout(timeout)
    try:
        with short_socket_path(path) as name:
            connection_socket.connect(name)
    except OSError:
        connection_socket.close()
        raise
    connection.sock = connection_socket
    return connection


def unreachable(url: str, origin: str, error: OSError) -> Unreachable:
    if "certificate" in str(error).lower():
        return Unreachable(
            f"the Director at {url} cannot be trusted",
            why=str(getattr(error, "verify_message", "") or error.strerror or error),
            remedy="give the certificates to check it against: --ca FILE or COTERIE_CA",
            retryable=False,
        )
    return Unreachable(
        f"the Director at {url} does not answer",
        why=error.strerror or str(error),
        remedy=f"its address comes from {origin}; start it there, or unset it to use the local Director",
    )
