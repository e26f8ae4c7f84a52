from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.ledger.store import Ledger
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import Site, site


@pytest.fixture
def here(ledger: Ledger, tmp_path: Path) -> Iterator[Site]:
    """On both databases."""
    with site(ledger, tmp_path) as made:
        yield made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    """On SQLite only: for what the database has no part in."""
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path) as made:
        yield made
    ledger.close()
