"""Rules of persistent disks."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import CpiError, InvalidCall, NotSupported
from coterie.cpi.kit.disks import gib, require_detached, require_growth, require_size, serial_number


def test_sizes_are_rounded_up_and_never_shrink() -> None:
    assert [gib(size) for size in (1, 1024, 1025)] == [1, 1, 2]
    require_growth("d", 2, 1025)
    with pytest.raises(NotSupported, match="cannot shrink"):
        require_growth("d", 2, 1024)
    with pytest.raises(InvalidCall, match="0 MB"):
        require_size(0)


def test_a_disk_that_a_vm_has_is_left_alone() -> None:
    require_detached("d", ())
    with pytest.raises(CpiError, match="disk d is attached to vm"):
        require_detached("d", ("vm",))


def test_a_serial_number_is_the_start_of_the_id() -> None:
    assert serial_number("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10") == "8d8c4a1e54c24f8e9d53"
