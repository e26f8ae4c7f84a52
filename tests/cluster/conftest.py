from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import postgres


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """A server of the test's own, which it may stop."""
    with postgres.running() as made:
        yield made
