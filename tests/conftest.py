"""Fixtures that every room's tests share: ledgers on both databases, and no open files of tests that have ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.ledger.store import Ledger
from coterie.sandbox import datacenter
from tests.ledger import shortcuts
from tests.ledger.blank import postgres_database, postgres_template, sqlite_ledger
from tests.peers import postgres

shortcuts.install()
shortcuts.be_patient()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The URL of an empty database."""
    return postgres_database(postgres_server)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "sqlite":
        opened = sqlite_ledger(tmp_path / "ledger.db")
    else:
        server = request.getfixturevalue("postgres_server")
        opened = Ledger.open(postgres_database(server, postgres_template(server)))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _sandboxes_are_closed() -> Iterator[None]:
    """A process keeps its sandbox open, for it has one; a test process has thousands."""
    yield
    while datacenter._open:
        datacenter._open.popitem()[1].close()
