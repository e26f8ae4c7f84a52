from __future__ import annotations

import pytest

from tests.peers import ports


@pytest.fixture
def free_port() -> int:
    return ports.free_port()
