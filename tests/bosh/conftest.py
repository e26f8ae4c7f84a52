from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.cloudstack_bed import CloudstackBed, CloudstackUserBed

from coterie.ledger.store import Ledger
from tests.bosh.cloud_program import CloudShop
from tests.bosh.nursery import Nursery
from tests.bosh.program import Shop


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture(scope="session")
def begun_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one: to begin a ledger costs more than most tests do with it."""
    file = tmp_path_factory.mktemp("ledger") / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def new_shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Nothing has been done here yet, so it has no ledger."""
    # A short path: a unix socket's name has hardly more than a hundred characters.
    return Shop(tmp_path_factory.mktemp("s"))


@pytest.fixture
def shop(new_shop: Shop, begun_ledger: Path) -> Shop:
    shutil.copy(begun_ledger, new_shop.ledger_file)
    return new_shop


@pytest.fixture
def cloud_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudShop]:
    """As a user with the right to expunge."""
    bed = CloudstackBed(tmp_path_factory.mktemp("c"))
    yield CloudShop(tmp_path_factory.mktemp("s"), bed)
    bed.close()


@pytest.fixture
def user_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudShop]:
    """As a user without it."""
    bed = CloudstackUserBed(tmp_path_factory.mktemp("c"))
    bed.set("allow.user.expunge.recover.vm", "false")
    yield CloudShop(tmp_path_factory.mktemp("s"), bed)
    bed.close()
