"""What a VM requires, and the smallest size that fits."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import InvalidCall, NoPlacement
from coterie.cpi.kit.sizes import Requirements, Size, read_requirements, require_fit, smallest_fit

SMALL, LARGE, WIDE = Size("small", 1, 1024), Size("large", 4, 8192), Size("wide", 64, 1024)


def test_the_smallest_in_both_respects_is_chosen() -> None:
    assert smallest_fit([LARGE, WIDE, SMALL], Requirements(1, 512, 0)) == SMALL
    assert smallest_fit([LARGE, WIDE], Requirements(1, 512, 0)) == LARGE
    assert smallest_fit([SMALL, LARGE], Requirements(2, 512, 0)) == LARGE
    assert smallest_fit([SMALL, LARGE], Requirements(2, 9000, 0)) is None


def test_requirements_are_whole() -> None:
    assert read_requirements({"cpu": 1, "ram": 2, "ephemeral_disk_size": 3}) == Requirements(1, 2, 3)
    with pytest.raises(InvalidCall, match="ram"):
        read_requirements({"cpu": 1, "ephemeral_disk_size": 3})


def test_what_no_size_fits_is_refused_with_the_cloud_s_word_for_one() -> None:
    asked = {"cpu": 2, "ram": 512, "ephemeral_disk_size": 7}
    assert require_fit(asked, [SMALL, LARGE], "machine type", "zone z1") == (LARGE, Requirements(2, 512, 7))
    with pytest.raises(NoPlacement, match=r"no machine type has 2 cpu and 512 MiB.*none of the 1 of zone z1"):
        require_fit(asked, [SMALL], "machine type", "zone z1")
