"""A PostgreSQL server of our own: in a temporary folder, on a free port, never as root."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from coterie.ledger.grants import statements
from tests.peers.ports import free_port

_USER = "postgres"  # made by Debian's package


class Server:
    """A running server, and what an operator may do to it."""

    def __init__(self, folder: Path, connections: int) -> None:
        self._folder, self._data, self.port = folder, folder / "data", free_port()
        self._connections = connections
        self.url = f"postgresql://coterie@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        trust = ("-U", "coterie", "-A", "trust")
        _run("initdb", "-D", self._data, *trust, "-E", "UTF8", "--locale", "C.UTF-8", "--no-sync")

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off"
        options += f" -c max_connections={self._connections}"
        _run("pg_ctl", "-D", self._data, "-w", "-l", self._folder / "log", "-o", options, "start")

    def stop(self) -> None:
        _run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def running(connections: int = 300) -> Iterator[Server]:
    """A fresh server, which ends with the block."""
    server = start(connections)
    try:
        yield server
    finally:
        server.stop()
        server.remove()


def start(connections: int = 300) -> Server:
    """A fresh server; the caller stops and removes it."""
    folder = Path(tempfile.mkdtemp(prefix="coterie-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, _USER, _USER)
    server = Server(folder, connections)
    server.create()
    server.start()
    return server


def conductor_role(url: str, *groups: str) -> str:
    """The URL of this database for a new role that has the rights of conductors of these groups and no others."""
    name = f'site "{uuid.uuid4().hex[:8]}'  # a quotation mark in it must do no harm
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{name.replace(chr(34), chr(34) * 2)}" LOGIN')
        for statement in statements(name, groups or [""]):
            connection.execute(statement)
    return url.replace("coterie@", f"{quote(name)}@", 1)


def _run(program: str, *arguments: object) -> None:
    command = [str(_program(program)), *map(str, arguments)]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--init-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    if done.returncode:
        raise RuntimeError(f"{program} as {getpass.getuser()}: {done.stdout}{done.stderr}")


def _program(name: str) -> Path:
    """Debian keeps the server's programs out of PATH, one folder per major version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1]
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    raise RuntimeError(f"{name} is not installed; `make test` installs it (Debian package: postgresql)")
