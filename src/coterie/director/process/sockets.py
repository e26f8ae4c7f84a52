"""The sockets that a Director listens on. A unix socket is for its owner only; a leftover one is replaced."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from coterie.errors import UsageError
from coterie.sockets import short_socket_path

_BACKLOG = 512


def unix(path: Path) -> socket.socket:
    """Call it only while holding the folder's lock: a file at `path` is removed as a leftover."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_socket_path(path) as name:
            listener.bind(name)
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    return listener


def tcp(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {address}",
            why=error.strerror or str(error),
            remedy="choose another HOST:PORT with --listen or COTERIE_LISTEN",
        ) from error
    listener.listen(_BACKLOG)
    return listener


def answers(path: Path) -> bool:
    """Whether a process listens behind the unix socket."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(2)
    try:
        with probe, short_socket_path(path) as name:
            probe.connect(name)
    except OSError:
        return False
    return True
