"""Fixtures that every room's tests share: ledgers on both databases, and no open files of tests that have ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from coterie.ledger.store import Ledger
from coterie.sandbox import datacenter
from tests.ledger import shortcuts
from tests.ledger.blank import postgres_database, postgres_template, sqlite_ledger
from tests.once import made_in_this_run, once_per_run
from tests.peers import postgres

if TYPE_CHECKING:
    from tests.kill.nursery import Nursery

_SERVER = "postgres"
_ROOT = Path(__file__).parent
# A shell starts background jobs with SIGINT ignored, and processes of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
shortcuts.install()
shortcuts.be_patient()
# An example may take longer on a machine with other work, and no test is about that.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


# They wait for leases and processes most of their time, in this order: clusters start at different moments then.
_LONG = ("kill", "cluster", "faults")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let every worker begin with its part of the long tests: one that comes last would run alone at the end."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return
    folders = [item.path.relative_to(_ROOT).parts[0] for item in items]
    long = [item for name in _LONG for item, folder in zip(items, folders, strict=True) if folder == name]
    short = [item for item, folder in zip(items, folders, strict=True) if folder not in _LONG]
    left = len(items)
    items.clear()
    for number in range(workers):  # as xdist parts the list
        part = left // (workers - number)
        left -= part
        mine = long[number::workers]
        count = max(0, part - len(mine))
        items += [*mine, *short[:count]]
        del short[:count]
    items += short


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the maintenance database of a server that all workers of a run share."""
    return once_per_run(tmp_path_factory, _SERVER, lambda: postgres.start(connections=1000)).url


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server when the run ends; the process that started the workers is the last one."""
    folders: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    if folders is None or hasattr(config, "workerinput"):
        return
    server: postgres.Server | None = made_in_this_run(folders, _SERVER)
    if server is not None:
        server.stop()
        server.remove()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where the processes are forked that kill and fault tests watch."""
    from tests.kill.nursery import Nursery

    with Nursery() as opened:
        yield opened


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
