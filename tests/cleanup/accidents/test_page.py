"""The documents list exactly the accidents of the suite."""

from __future__ import annotations

from coterie.cpi.load import driver_names
from tests.cleanup.accidents import ACCIDENTS
from tests.cleanup.accidents.beds import BEDS
from tests.cleanup.accidents.listing import LACKS, LEFT_OUT
from tests.cleanup.accidents.page import PAGE, renew


def test_the_page_lists_the_accidents_of_the_suite() -> None:
    text = PAGE.read_text()
    assert renew(text) == text, "run `make docs`"
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [(int(row[0][2:]), row[1]) for row in rows] == [(one.number, one.name) for one in ACCIDENTS]


def test_accidents_are_numbered_through_and_named_once() -> None:
    assert [one.number for one in ACCIDENTS] == list(range(1, len(ACCIDENTS) + 1))
    assert len({one.name for one in ACCIDENTS}) == len(ACCIDENTS)


def test_every_driver_runs_the_suite_or_is_named_with_a_reason() -> None:
    """A new driver gets a bed in `beds`, and its lacks."""
    assert list(LACKS) == list(BEDS)
    assert set(driver_names()) <= {*LACKS, *LEFT_OUT}
    assert not LACKS.keys() & LEFT_OUT.keys()


def test_every_lack_excuses_an_accident() -> None:
    """A word that no accident needs would hide that nothing is skipped for it."""
    needs = {need for one in ACCIDENTS for need in one.needs}
    assert {need for lacks in LACKS.values() for need in lacks} <= needs
