"""What both ends of a connection need of an address: a path of a unix socket that the kernel takes, and whether a host
is this machine."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.errors import UsageError

_LONGEST_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes on Linux and 104 elsewhere, a zero byte among them


@contextmanager
def short_socket_path(socket: Path) -> Iterator[str]:
    """A path of the socket that is short enough for the kernel: through a handle of the folder if need be."""
    if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH:
        yield str(socket)
        return
    if not Path("/proc/self/fd").is_dir():
        raise UsageError(
            f"the path {socket} is too long for a unix socket",
            why="this system allows about 100 bytes",
            remedy="set COTERIE_STATE to a folder with a shorter path",
        )
    handle = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{socket.name}"
    finally:
        os.close(handle)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
