from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.ledger.store import Ledger
from tests.cleanup.yard import Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import site


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """On SQLite."""
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path) as made:
        yield Yard(made)
    ledger.close()


@pytest.fixture
def both(ledger: Ledger, tmp_path: Path) -> Iterator[Yard]:
    """On both databases."""
    with site(ledger, tmp_path) as made:
        yield Yard(made)
