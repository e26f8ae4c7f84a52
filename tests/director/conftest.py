"""An office on a fresh SQLite ledger, and a client of its API in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.director.app import build
from coterie.director.home import Home
from coterie.director.office import Office
from coterie.ids import Ids
from coterie.ledger.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.settings import load
from tests.director.asgi import Client


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    home = Home(tmp_path / "state")
    home.prepare()
    ledger = Ledger.open(home.database)
    settings = load({"state": str(home.folder)}, {"HOME": str(tmp_path), "COTERIE_TOKEN": "hunter2"})
    yield Office(ledger, ensure_director(ledger, "test", Ids()), settings, home, local=True)
    ledger.close()


@pytest.fixture
def client(office: Office) -> Iterator[Client]:
    made = Client(build(office))
    yield made
    made.close()


@pytest.fixture
def ledger(office: Office) -> Ledger:
    return office.ledger
