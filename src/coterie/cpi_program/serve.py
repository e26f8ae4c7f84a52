"""The core process: one office kept warm behind a unix socket that only its user may open, and the HTTP servers."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socketserver
import stat
import threading
from pathlib import Path
from types import FrameType

from coterie.cpi.wire.strict import MAX_BYTES
from coterie.cpi_program.office import Office
from coterie.cpi_program.shopfront import Shopfront
from coterie.errors import Conflict, CoterieError

log = logging.getLogger("coterie-cpi")
_STALLED_S = 60.0  # a client that neither sends nor reads for so long must not keep the core from ending


def serve(config: str) -> None:
    """Run until SIGTERM or SIGINT; calls that are under way are finished first."""
    office = Office(config, core=True)
    path = Path(office.config.socket)
    with _only_one(path), Core(path, office) as core:
        shops = Shopfront(office)
        _end_on_signal(core)
        log.info("serving %s for the driver %s", path, office.config.driver)
        try:
            core.serve_forever(poll_interval=0.2)
        finally:
            core.drain()
            shops.close()
            office.close()


class Core(socketserver.ThreadingUnixStreamServer):
    """Each connection is one request in a thread of its own; it goes on when its client dies."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 256

    def __init__(self, path: Path, office: Office) -> None:
        self.office = office
        self._path = path
        path.unlink(missing_ok=True)
        # The socket is born closed to others: a chmod afterwards would leave a moment.
        before = os.umask(0o177)
        try:
            super().__init__(str(path), _Handler)
        finally:
            os.umask(before)

    def drain(self) -> None:
        """Take nothing new; wait for what is under way."""
        self._path.unlink(missing_ok=True)
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        log.warning("a client left before its answer was written; the work itself was finished")


class _Handler(socketserver.StreamRequestHandler):
    server: Core
    timeout = _STALLED_S

    def handle(self) -> None:
        request = self.rfile.read(MAX_BYTES + 1)
        self.wfile.write(self.server.office.answer(request) + b"\n")


class _only_one:
    """A lock beside the socket, so that a second core refuses to start instead of stealing the first one's socket."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")

    def __enter__(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"a core process serves {self._path.with_suffix('')} already", remedy="stop it first, or leave it"
            ) from None
        except OSError as error:
            raise CoterieError(
                f"the folder of the socket {self._path.with_suffix('')} cannot be used",
                why=str(error.strerror),
                remedy="set `socket:` in the configuration to a path in a folder that this user may write",
            ) from None

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _end_on_signal(core: Core) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        # shutdown() waits for the loop that this very signal interrupted, so it must run beside it.
        threading.Thread(target=core.shutdown, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
