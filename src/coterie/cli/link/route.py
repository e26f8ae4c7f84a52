"""Where the Director is and how a connection to it is opened: a URL, or the state folder of the local one."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from coterie.director.process.sockets import is_loopback
from coterie.director.process.state_folder import StateFolder, short_socket_path
from coterie.errors import Unreachable, UsageError
from coterie.settings import Settings

Say = Callable[[str], None]


class Route(Protocol):
    """Opens connections; if one cannot be opened, starts the local Director or raises an error with a remedy."""

    token: str | None
    prefix: str

    def open(self, timeout: float) -> http.client.HTTPConnection: ...

    def close(self) -> None: ...


def route_to(settings: Settings, *, foreground: bool, say: Say) -> Route:
    url: str | None = settings["director"]
    if url is None:
        from coterie.cli.link.local import LocalRoute

        return LocalRoute(StateFolder(settings.state), foreground=foreground, say=say)
    origin = settings.origin("director")
    if url.startswith("unix:"):
        return UnixRoute(Path(url.removeprefix("unix:")), origin)
    from coterie.cli.link.token import token_for

    token = token_for(url, settings)
    if token is not None and not settings["plain_http"]:
        _require_safe(url, origin)
    return TcpRoute(url, origin, token, settings["ca"])


def _require_safe(url: str, origin: str) -> None:
    """A token may travel through TLS, or on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return
    raise UsageError(
        f"the token would travel unencrypted to {url}",
        why=f"the address comes from {origin}",
        remedy="use https://; where the way is safe by other means, set COTERIE_PLAIN_HTTP=true",
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

    def open(self, timeout: float) -> http.client.HTTPConnection:
        connection = self._connection(timeout)
        try:
            connection.connect()
        except OSError as error:
            raise unreachable(self._url, self._origin, error) from error
        return connection

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
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

    def open(self, timeout: float) -> http.client.HTTPConnection:
        try:
            return connect_unix(self._path, timeout)
        except OSError as error:
            raise unreachable(f"unix:{self._path}", self._origin, error) from error

    def close(self) -> None:
        pass


def connect_unix(path: Path, timeout: float) -> http.client.HTTPConnection:
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
