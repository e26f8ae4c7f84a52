"""Those tests of the kit that need nothing that moto lacks, on moto."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer
from peers.moto_bed import MotoBed, served

from coterie.cpi.conformance.lab import lab
from coterie.cpi.conformance.parts import addresses, attachments, disks, machines, networks, sizes, snapshots

__all__ = ["lab"]
pytestmark = pytest.mark.full
LACKING = {  # tests of these parts of the kit that moto fails, and why
    "test_the_same_mark_makes_one_disk": "it takes no client tokens",
    "test_a_failed_vm_gives_its_address_back": "it has room for everything",
    "test_a_vm_that_fits_nowhere_says_why": "it has room for everything",
}
globals().update(
    {
        name: test
        for part in (addresses, attachments, disks, machines, networks, sizes, snapshots)
        for name, test in vars(part).items()
        if name.startswith("test_") and name not in LACKING
    }
)


@pytest.fixture(scope="module")
def moto() -> Iterator[ThreadedMotoServer]:
    with served() as server:
        yield server


@pytest.fixture
def bed(moto: ThreadedMotoServer) -> MotoBed:
    return MotoBed(moto)
