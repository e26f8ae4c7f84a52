"""An application context on a fresh SQLite ledger, and a client of its API in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.ids import Ids
from coterie.ledger.rows import keys
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.seal.keys import KeyFile
from coterie.settings import load
from tests.director.asgi import Client
from tests.ledger.blank import sqlite_ledger


@pytest.fixture
def context(tmp_path: Path) -> Iterator[AppContext]:
    state_folder = StateFolder(tmp_path / "state")
    state_folder.prepare()
    ledger = sqlite_ledger(state_folder.ledger)
    settings = load({"state": str(state_folder.path)}, {"HOME": str(tmp_path), "COTERIE_TOKEN": "hunter2"})
    publish_key(ledger, state_folder.path)
    yield AppContext(ledger, ensure_director(ledger, "test", Ids()), settings, state_folder, local=True)
    ledger.close()


def publish_key(ledger: Ledger, folder: Path, group: str = keys.EVERY) -> KeyFile:
    """What a conductor does at its first start."""
    file = KeyFile(folder / "conductor.key")
    file.ensure()
    newest = file.newest()
    assert newest is not None
    with ledger.write() as tx:
        keys.publish_first(tx, group, newest.public.id, newest.public.text, "test")
    return file


@pytest.fixture
def client(context: AppContext) -> Iterator[Client]:
    made = Client(build(context))
    yield made
    made.close()


@pytest.fixture
def ledger(context: AppContext) -> Ledger:
    return context.ledger
