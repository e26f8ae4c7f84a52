"""The kit: all tests of the contract. A driver's test file imports everything from here and provides `bed`."""

from coterie.cpi.conformance.lab import lab
from coterie.cpi.conformance.parts import (
    about,
    addresses,
    adoption,
    attachments,
    deleting,
    disks,
    finding,
    group_members,
    groups,
    machine_repeats,
    machines,
    networks,
    security,
    sizes,
    snapshots,
    stemcells,
    surveying,
)

_PARTS = (
    about,
    stemcells,
    machines,
    machine_repeats,
    addresses,
    sizes,
    disks,
    attachments,
    snapshots,
    networks,
    groups,
    group_members,
    security,
    adoption,
    finding,
    deleting,
    surveying,
)
TESTS = {name: test for part in _PARTS for name, test in vars(part).items() if name.startswith("test_")}
globals().update(TESTS)  # so that one import line of a driver's test file brings them all

__all__ = ["lab", *TESTS]
