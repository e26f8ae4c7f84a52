"""One simulated world: a state folder with a cloud in it, and a database; it can be copied as it stands."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from coterie.ledger.store import Ledger
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from tests.kill.scenario import CLOUD, zone
from tests.ledger.blank import create_database


@dataclass(frozen=True, slots=True)
class World:
    """`server`: the maintenance database of PostgreSQL, or None for SQLite."""

    folder: Path
    server: str | None
    database: str

    @property
    def url(self) -> str:
        if self.server is None:
            return f"sqlite:///{self.folder / 'ledger.db'}"
        # A worker process competes with many others for two cores: a connection may take long.
        return self.server.rpartition("/")[0] + f"/{self.database}?connect_timeout=60"

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        opened = Ledger.open(self.url)
        try:
            yield opened
        finally:
            opened.close()

    @contextmanager
    def operator(self) -> Iterator[Account]:
        """A way into the cloud that no fault bends. Closed at the end: copying an open SQLite file loses its locks."""
        datacenter = open_datacenter(self.folder / "sandbox.db", {"zones": [zone()]})
        try:
            yield open_account(datacenter, CLOUD, groups="direct", operator=True)
        finally:
            datacenter.store.close()

    def copy(self, folder: Path) -> World:
        """The same world again, elsewhere. No process may be using it."""
        folder.mkdir(parents=True)
        for name in ("sandbox.db", "sandbox.db-wal", "ledger.db", "ledger.db-wal"):
            if (self.folder / name).exists():
                shutil.copy(self.folder / name, folder / name)
        shutil.copytree(self.folder / "stemcells", folder / "stemcells")
        twin = replace(self, folder=folder, database=_new_name())
        twin._create_database(template=self.database)
        return twin

    def destroy(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.server is not None:
            with psycopg.connect(self.server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")

    def _create_database(self, template: str = "template0") -> None:
        if self.server is not None:
            with psycopg.connect(self.server, autocommit=True) as connection:
                create_database(connection, self.database, template)


def new_world(folder: Path, server: str | None) -> World:
    """Empty but for a stemcell image: no schema yet, no cloud yet."""
    (folder / "stemcells").mkdir(parents=True)
    (folder / "stemcells" / "image").write_bytes(b"an image")
    made = World(folder, server, _new_name())
    made._create_database()
    return made


def _new_name() -> str:
    return f"k{uuid.uuid4().hex}"
