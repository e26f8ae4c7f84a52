"""The core process: one service kept warm behind a unix socket that only its user may open, and its HTTP servers."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import socketserver
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from coterie.bosh.client.client import DELIVERED
from coterie.bosh.config import Publish, Registry
from coterie.bosh.core.service import CpiService
from coterie.cpi.wire.strict import MAX_BYTES
from coterie.errors import Conflict, CoterieError
from coterie.registry.server import registry_server
from coterie.stemcell.server import publishing_server
from coterie.stemcell.shelf import Shelf

if TYPE_CHECKING:
    from coterie.ledger.file import FileLedger
    from coterie.ledger.store import Ledger

log = logging.getLogger("coterie-cpi")
_STALLED_S = 60.0  # a client that neither sends nor reads for so long is given up
_UNCONFIRMED = 1024  # answers that wait for their clients
_LAST_REQUEST_S = 2.0  # how long a request may still be arriving after the signal to end


def serve(config: str) -> None:
    """Run until SIGTERM or SIGINT; calls that are under way are finished first."""
    service = CpiService(config, core=True)
    path = Path(service.config.socket)
    # The socket comes last: when it is there, the other servers run, and signals end the process in order.
    with closing(service), lock_socket(path), closing(HttpServers(service)):
        end = _end_signal()
        with Core(path, service) as core:
            threading.Thread(target=core.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
            log.info("serving %s for the driver %s", path, service.config.driver)
            os.read(end, 1)
            core.shutdown()
            core.drain()


class Core(socketserver.ThreadingUnixStreamServer):
    """Each connection is one request in a thread of its own; it goes on when its client dies."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 256

    def __init__(self, path: Path, service: CpiService) -> None:
        self.service = service
        self.waiting: set[socket.socket] = set()  # connections whose request has not arrived yet
        self.is_draining = False
        self._unconfirmed: dict[bytes, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._path = path
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        # The socket is created closed to other users: a chmod afterwards would come a moment too late.
        before = os.umask(0o177)
        try:
            super().__init__(str(draft), _Handler)
        finally:
            os.umask(before)
        draft.replace(path)  # it gets its name when it listens already

    def expect_confirmation(self, answer: bytes, confirm: Callable[[], None]) -> None:
        """Until the client says that its caller has the answer; the oldest of many never come."""
        with self._lock:
            self._unconfirmed[answer] = confirm
            if len(self._unconfirmed) > _UNCONFIRMED:
                del self._unconfirmed[next(iter(self._unconfirmed))]

    def confirm(self, answer: bytes) -> None:
        with self._lock:
            confirm = self._unconfirmed.pop(answer, None)
        if confirm:
            confirm()

    def drain(self) -> None:
        """Accept nothing new; finish what is under way, but do not wait for clients that send no request."""
        self.is_draining = True
        self._path.unlink(missing_ok=True)
        hang_up = threading.Timer(_LAST_REQUEST_S, self._hang_up)
        hang_up.daemon = True
        hang_up.start()
        self.server_close()
        hang_up.cancel()

    def _hang_up(self) -> None:
        for connection in tuple(self.waiting):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)

    def handle_error(self, request: object, client_address: object) -> None:
        log.warning("a client left before its answer was written; the work itself was finished")


class _Handler(socketserver.StreamRequestHandler):
    server: Core
    timeout = _STALLED_S

    def handle(self) -> None:
        self.server.waiting.add(self.connection)
        try:
            request = self.rfile.read(MAX_BYTES + 1)
        finally:
            self.server.waiting.discard(self.connection)
        if request.startswith(DELIVERED):
            self.server.confirm(request.removeprefix(DELIVERED))
            return
        envelope, confirm = self.server.service.answer_unconfirmed(request)
        answer = envelope + b"\n"
        if confirm:
            self.server.expect_confirmation(answer, confirm)
        self.wfile.write(answer)
        if self.server.is_draining:  # no client can reach this process any more
            self.server.confirm(answer)


def _end_signal() -> int:
    """The end of a pipe that becomes readable at SIGTERM or SIGINT."""
    reading, writing = os.pipe()

    def end(number: int, frame: FrameType | None) -> None:
        # Nothing but a write: a lock taken here could be held by the very code that the signal interrupted.
        os.write(writing, b".")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return reading


_EXPIRE_S = 600.0


class HttpServers:
    """The registry and the publishing server, as far as they are configured."""

    def __init__(self, service: CpiService) -> None:
        self._servers: list[ThreadingHTTPServer] = []
        self._done = threading.Event()
        config = service.config
        try:
            if config.registry:
                self._open_registry(config.registry, service.local_ledger(config).ledger)
            if config.publish_server:
                self._open_publishing(config.publish_server)
        except CoterieError:
            self.close()
            raise

    def close(self) -> None:
        self._done.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def _open_registry(self, section: Registry, ledger: FileLedger | Ledger) -> None:
        with _explain_bind_error("registry.listen", section.listen):
            self._start(registry_server(section.listen, ledger, section.user, section.password))

    def _open_publishing(self, section: Publish) -> None:
        shelf = Shelf(section.folder, section.ttl_s)
        with _explain_bind_error("publish_server.listen", section.listen):
            self._start(publishing_server(section.listen, shelf, section.url, section.user, section.password))
        threading.Thread(target=self._remove_expired, args=(shelf,), daemon=True).start()

    def _start(self, server: ThreadingHTTPServer) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def _remove_expired(self, shelf: Shelf) -> None:
        while not self._done.wait(_EXPIRE_S):
            shelf.sweep()


@contextmanager
def _explain_bind_error(setting: str, listen: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CoterieError(
            f"{setting}: nothing can listen on {listen}",
            why=str(error.strerror),
            remedy=f"set {setting} in the configuration to an address of this machine with a free port",
        ) from None


@contextmanager
def lock_socket(socket: Path) -> Iterator[None]:
    """A second core process refuses to start instead of taking over the socket. The lock ends with its process."""
    handle = _acquire_lock(socket)
    try:
        yield
    finally:
        os.close(handle)


def _acquire_lock(socket: Path) -> int:
    try:
        socket.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(socket.with_name(socket.name + ".lock"), os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(f"a core process serves {socket} already", remedy="stop it first, or leave it") from None
    except OSError as error:
        raise CoterieError(
            f"the folder of the socket {socket} cannot be used",
            why=str(error.strerror),
            remedy="set `socket:` in the configuration to a path in a folder that this user may write",
        ) from None
    return handle
