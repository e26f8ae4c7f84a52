"""The kit's lab on the sandbox's Azure: whatever a test makes is removed at its end, and nothing else may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.azure_bed import AzureBed

from coterie.cpi.conformance.lab import Lab


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AzureBed]:
    made = AzureBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(bed: AzureBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()
