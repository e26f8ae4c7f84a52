"""The kit's lab on the sandbox's Compute Engine: all that a test makes is removed, and nothing else may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.gcp_bed import GcpBed

from coterie.cpi.conformance.lab import Lab


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[GcpBed]:
    made = GcpBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(bed: GcpBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()
