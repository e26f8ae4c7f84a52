"""A nursery for the whole session, and one matrix for each database, recorded once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kill.matrix import Matrix
from tests.kill.nursery import Nursery

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture(scope="session", params=DATABASES)
def database(request: pytest.FixtureRequest) -> str | None:
    """The maintenance database of a PostgreSQL server, or None for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_server")


@pytest.fixture(scope="session")
def matrix(nursery: Nursery, database: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    made = Matrix(nursery, tmp_path_factory.mktemp("kill"), database)
    made.record()
    yield made
    made.close()
