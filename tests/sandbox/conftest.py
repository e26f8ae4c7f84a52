from __future__ import annotations

from pathlib import Path

import pytest

from .world import World, begin


@pytest.fixture
def world(tmp_path: Path) -> World:
    return begin(tmp_path)
