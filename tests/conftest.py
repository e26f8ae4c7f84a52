"""Fixtures that every room's tests share: ledgers on both databases, and no open files of tests that have ended."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from coterie.ledger.store import Ledger
from coterie.sandbox import datacenter
from tests.peers import postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres.server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The URL of an empty database."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres_server.rpartition("/")[0] + f"/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    opened = Ledger.open(database_url)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _sandboxes_are_closed() -> Iterator[None]:
    """A process keeps its sandbox open, for it has one; a test process has thousands."""
    yield
    while datacenter._open:
        datacenter._open.popitem()[1].close()
