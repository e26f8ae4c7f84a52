"""The kit's lab on the emulator: whatever a test makes is removed at its end, and nothing else may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.cloudstack_bed import CloudstackBed, CloudstackUserBed

from coterie.cpi.conformance.lab import Lab


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[CloudstackBed]:
    made = CloudstackBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def lab(bed: CloudstackBed) -> Iterator[Lab]:
    made = Lab(bed)
    yield made
    made.close()


@pytest.fixture
def user_bed(tmp_path: Path) -> Iterator[CloudstackUserBed]:
    """A user who may not expunge."""
    made = CloudstackUserBed(tmp_path)
    made.set("allow.user.expunge.recover.vm", "false")
    yield made
    made.close()
