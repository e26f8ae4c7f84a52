from __future__ import annotations

from pathlib import Path

import pytest

from .lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def lists(tmp_path: Path) -> Lab:
    """A cloud that cannot hold an empty group and whose members are one list."""
    return Lab(tmp_path, {"groups": "single-writer"})


@pytest.fixture(params=["direct", "single-writer"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return Lab(tmp_path, {"groups": request.param})
