"""Every accident on every driver that has such a thing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cleanup.accidents import ACCIDENTS
from tests.cleanup.accidents.beds import BEDS
from tests.cleanup.accidents.ground import Ground
from tests.cleanup.accidents.listing import LACKS, Accident

MARKS = {"openstack": pytest.mark.openstack, "incus": pytest.mark.incus}


def _cases() -> Iterator[object]:
    for driver in LACKS:
        for one in ACCIDENTS:
            marks = [MARKS[driver]] if driver in MARKS else []
            if driver != "sandbox" and not one.cloud:
                marks.append(pytest.mark.full)
            yield pytest.param(driver, one, id=f"{driver}-{one.number:02d}-{one.run.__name__}", marks=marks)


@pytest.fixture(scope="module")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ground]]:
    """Opened by the first accident of a driver, and shared by the others."""
    opened: dict[str, Ground] = {}
    yield opened
    for ground in opened.values():
        ground.close()


@pytest.fixture(autouse=True)
def _sandboxes_are_closed() -> None:
    """They stay open: their Directors are shared."""


@pytest.mark.parametrize(("driver", "accident"), list(_cases()))
def test_accident(
    driver: str, accident: Accident, grounds: dict[str, Ground], tmp_path_factory: pytest.TempPathFactory
) -> None:
    missing = accident.reason_to_skip(driver)
    if missing:
        pytest.skip(f"{missing.why} ({missing.citation})")
    if driver not in grounds:
        bed = BEDS[driver]()
        grounds[driver] = Ground(bed, bed.open_site(tmp_path_factory.mktemp(driver)))
    ground = grounds.pop(driver)
    try:
        accident.run(ground)
        ground.settle()
    except BaseException:
        ground.discard()  # the next accident begins with another one
        raise
    grounds[driver] = ground
