"""The core process: one office kept warm behind a unix socket that only its user may open, and the HTTP servers."""

from __future__ import annotations

import logging
import os
import signal
import socket
import socketserver
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

from coterie.bosh.core.core_lock import only_one
from coterie.bosh.core.http_servers import Shopfront
from coterie.bosh.core.service import Office
from coterie.cpi.wire.strict import MAX_BYTES

log = logging.getLogger("coterie-cpi")
_STALLED_S = 60.0  # a client that neither sends nor reads for so long is given up
_LAST_WORDS_S = 2.0  # how long a request may still be arriving when the core has been told to end


def serve(config: str) -> None:
    """Run until SIGTERM or SIGINT; calls that are under way are finished first."""
    office = Office(config, core=True)
    path = Path(office.config.socket)
    # The socket comes last: whoever sees it may count on the other servers, and on an orderly end.
    with closing(office), only_one(path), closing(Shopfront(office)):
        told = _told_to_end()
        with Core(path, office) as core:
            threading.Thread(target=core.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
            log.info("serving %s for the driver %s", path, office.config.driver)
            os.read(told, 1)
            core.shutdown()
            core.drain()


class Core(socketserver.ThreadingUnixStreamServer):
    """Each connection is one request in a thread of its own; it goes on when its client dies."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 256

    def __init__(self, path: Path, office: Office) -> None:
        self.office = office
        self.listening: set[socket.socket] = set()  # connections whose request has not arrived yet
        self._path = path
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        # The socket is born closed to others: a chmod afterwards would leave a moment.
        before = os.umask(0o177)
        try:
            super().__init__(str(draft), _Handler)
        finally:
            os.umask(before)
        draft.replace(path)  # it gets its name when it listens, so that nobody finds it deaf

    def drain(self) -> None:
        """Take nothing new; wait for what is under way, but not for those who never say what they want."""
        self._path.unlink(missing_ok=True)
        hang_up = threading.Timer(_LAST_WORDS_S, self._hang_up)
        hang_up.daemon = True
        hang_up.start()
        self.server_close()
        hang_up.cancel()

    def _hang_up(self) -> None:
        for connection in tuple(self.listening):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)

    def handle_error(self, request: object, client_address: object) -> None:
        log.warning("a client left before its answer was written; the work itself was finished")


class _Handler(socketserver.StreamRequestHandler):
    server: Core
    timeout = _STALLED_S

    def handle(self) -> None:
        self.server.listening.add(self.connection)
        try:
            request = self.rfile.read(MAX_BYTES + 1)
        finally:
            self.server.listening.discard(self.connection)
        self.wfile.write(self.server.office.answer(request) + b"\n")


def _told_to_end() -> int:
    """The end of a pipe that becomes readable at SIGTERM or SIGINT."""
    reading, writing = os.pipe()

    def end(number: int, frame: FrameType | None) -> None:
        # Nothing but a write: whatever takes a lock here may wait for the very code that the signal interrupted.
        os.write(writing, b".")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return reading
