"""A CD image is whole sectors long and holds its one file."""

from __future__ import annotations

import pytest
from peers.cd import SECTOR, files_on_cd

from coterie.cpi.kit.cd_image import cd_image


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 100_000])
def test_a_cd_holds_its_one_file(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    image = cd_image("env", content)
    assert len(image) % SECTOR == 0
    assert files_on_cd(image) == {"ENV.;1": content}
