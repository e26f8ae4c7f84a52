"""Empty ledgers, copied from one: migrations have tests of their own, and would be half the time of many others."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from functools import cache
from pathlib import Path

import psycopg

from coterie.ledger.store import Ledger

_CAN_COPY_FILES = 150000


def sqlite_ledger(file: Path) -> Ledger:
    """A ledger in this file, which must not exist yet."""
    shutil.copy(_sqlite(), file)
    return Ledger.open(f"sqlite:///{file}")


def postgres_database(server: str, template: str | None = None) -> str:
    """The URL of a new database of this server: a copy of `template`, or without anything in it."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        create_database(connection, name, template or "template1")
    return server.rpartition("/")[0] + f"/{name}"


def create_database(connection: psycopg.Connection, name: str, template: str) -> None:
    """Copies files where the server can: to write every block to the log takes two to four times as much CPU."""
    strategy = "STRATEGY FILE_COPY" if connection.info.server_version >= _CAN_COPY_FILES else ""
    connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")


@cache
def postgres_template(server: str) -> str:
    """The name of an empty ledger."""
    url = postgres_database(server)
    Ledger.open(url).close()
    return url.rpartition("/")[2]


@cache
def _sqlite() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="coterie-blank-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    Ledger.open(f"sqlite:///{folder / 'ledger.db'}").close()
    return folder / "ledger.db"
