"""A TLS door in front of a peer that speaks plain: bytes go through as they are."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit


@contextmanager
def tunnel(url: str, certificate: Path, key: Path) -> Iterator[str]:
    """The https address that leads to this http address, for the time of the block."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    where = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_serve, args=(door, context, (where.hostname, where.port)), daemon=True).start()
        yield f"https://127.0.0.1:{door.getsockname()[1]}"


def _serve(door: socket.socket, context: ssl.SSLContext, target: tuple[str | None, int | None]) -> None:
    with suppress(OSError):  # the door is closed at the end of the block
        while True:
            visitor, _ = door.accept()
            threading.Thread(target=_admit, args=(visitor, context, target), daemon=True).start()


def _admit(visitor: socket.socket, context: ssl.SSLContext, target: tuple[str | None, int | None]) -> None:
    with (
        suppress(OSError),  # a visitor may distrust us
        context.wrap_socket(visitor, server_side=True) as safe,
        socket.create_connection(target) as inside,  # type: ignore[arg-type] # a url of a peer has both
    ):
        back = threading.Thread(target=_pour, args=(inside, safe), daemon=True)
        back.start()
        _pour(safe, inside)
        back.join(5)


def _pour(source: socket.socket, into: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            into.sendall(piece)
        into.shutdown(socket.SHUT_WR)
