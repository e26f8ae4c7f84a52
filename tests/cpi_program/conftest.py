from __future__ import annotations

import pytest

from tests.cpi_program.shop import Shop


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    # A short path: a unix socket's name has hardly more than a hundred characters.
    return Shop(tmp_path_factory.mktemp("s"))
