"""One core process per socket: a lock beside it, which ends with its process."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie.errors import Conflict, CoterieError


@contextmanager
def only_one(socket: Path) -> Iterator[None]:
    """A second core refuses to start instead of stealing the first one's socket."""
    handle = _locked(socket)
    try:
        yield
    finally:
        os.close(handle)


def _locked(socket: Path) -> int:
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
