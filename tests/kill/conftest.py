"""One bench for each database, recorded once for all rooms that use it."""

from __future__ import annotations

import pytest

from tests.kill.bench import Bench
from tests.kill.matrix import Matrix
from tests.kill.nursery import Nursery
from tests.once import once_per_run

_recorded: dict[str | None, Bench] = {}


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    """The maintenance database of a PostgreSQL server, or None for SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_server")


@pytest.fixture(scope="session")
def bench(nursery: Nursery, database: str | None, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    if database not in _recorded:
        made = Bench(nursery, tmp_path_factory.mktemp("bench"), database)
        name = "recording" if database is None else "recording-postgresql"
        made.recording = once_per_run(tmp_path_factory, name, made.record)
        _recorded[database] = made
    return _recorded[database]


@pytest.fixture(scope="session")
def matrix(bench: Bench) -> Matrix:
    return Matrix(bench)
