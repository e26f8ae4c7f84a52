"""A driver is one class that delegates to parts, in few files; `XCpi → ComposedCpi → Cpi` is the whole inheritance."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from coterie.cpi.contract import Cpi
from coterie.cpi.kit.composed import ComposedCpi

MOST_FILES = 16


@pytest.mark.parametrize("name", sorted(point.name for point in entry_points(group="coterie.cpi")))
def test_a_driver_inherits_from_the_contract_and_the_kit_only(name: str) -> None:
    (point,) = entry_points(group="coterie.cpi", name=name)
    driver = point.load()
    classes = [one for one in driver.__mro__ if one is not object]
    assert classes in ([driver, Cpi], [driver, ComposedCpi, Cpi])
    folder = Path(str(sys.modules[driver.__module__].__file__)).parent
    assert 1 < len(list(folder.rglob("*.py"))) <= MOST_FILES
