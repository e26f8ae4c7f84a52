"""The kit's lab on the simulated vCenter: whatever a test makes is removed at its end, and nothing else may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.vsphere_bed import VsphereBed

from coterie.cpi.conformance.lab import Lab


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[VsphereBed]:
    made = VsphereBed(tmp_path)
    made.server.forget_calls()
    yield made
    made.close()


@pytest.fixture
def lab(bed: VsphereBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()
