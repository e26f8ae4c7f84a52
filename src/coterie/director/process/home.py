"""The state folder of a local Director: what lies where, and who may read it. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.errors import UsageError

_LONGEST_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes on Linux and 104 elsewhere, a zero byte among them


@dataclass(frozen=True, slots=True)
class Home:
    folder: Path

    @property
    def socket(self) -> Path:
        return self.folder / "director.sock"

    @property
    def lock(self) -> Path:
        return self.folder / "director.lock"

    @property
    def start_lock(self) -> Path:
        """Held by the one client that is starting a Director, so that ten clients start one."""
        return self.folder / "start.lock"

    @property
    def log(self) -> Path:
        return self.folder / "director.log"

    @property
    def start_log(self) -> Path:
        """What the Director said before its log was open; a failed start is explained here."""
        return self.folder / "start.log"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def token(self) -> Path:
        return self.folder / "token"

    @property
    def stemcells(self) -> Path:
        return self.folder / "stemcells"

    @property
    def database(self) -> str:
        return f"sqlite:///{self.ledger}"

    def prepare(self) -> None:
        """Make the folder, private to its owner; refuse one that belongs to somebody else."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = self.folder.stat()
            if facts.st_uid != os.geteuid():
                raise UsageError(
                    f"the state folder {self.folder} belongs to another user", remedy="set COTERIE_STATE to your own"
                )
            if facts.st_mode & 0o077:
                self.folder.chmod(0o700)
        except OSError as error:
            raise UsageError(
                f"cannot use the state folder {self.folder}",
                why=error.strerror or type(error).__name__,
                remedy="set COTERIE_STATE to a folder that you may write to",
            ) from error


@contextmanager
def reachable(socket: Path) -> Iterator[str]:
    """A name of the socket that the kernel takes, however deep the folder is: through a handle of the folder."""
    if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH:
        yield str(socket)
        return
    if not Path("/proc/self/fd").is_dir():
        raise UsageError(
            f"the path {socket} is too long for a unix socket",
            why="this system takes about 100 bytes",
            remedy="set COTERIE_STATE to a folder with a shorter path",
        )
    handle = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{socket.name}"
    finally:
        os.close(handle)
