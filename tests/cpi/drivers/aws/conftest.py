"""The kit's lab on the sandbox's EC2: whatever a test makes is removed at its end, and nothing else may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.conformance.lab import Lab


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AwsBed]:
    made = AwsBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(bed: AwsBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()
