"""The kit's lab in the real Incus cluster. Every test of this folder needs it, but those in `parts`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.incus_bed import IncusBed

from coterie.cpi.conformance.lab import Lab

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents and _HERE / "parts" not in item.path.parents:
            item.add_marker(pytest.mark.incus)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[IncusBed]:
    made = IncusBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(bed: IncusBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()
