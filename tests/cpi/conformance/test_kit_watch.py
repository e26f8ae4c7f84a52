"""The watched driver: the kit notices what a driver must never do."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.conformance.watch import watch_driver
from coterie.cpi.contract import Cpi, CpiError, OutcomeUnknown


class Sloppy:
    """A driver whose create_disk and has_disk end as told, after making something or not."""

    cloud = "sloppy"

    def __init__(self, error: Exception | None, leaks: bool = False) -> None:
        self.error, self.leaks = error, leaks
        self.things: set[tuple[str, str]] = set()

    def create_disk(self, *_: Any, **__: Any) -> str:
        if self.leaks or self.error is None:
            self.things.add(("disk", "d-1"))
        if self.error:
            raise self.error
        return "d-1"

    has_disk = create_disk

    def inventory(self) -> Inventory:
        return frozenset(self.things)


def watch(driver: Sloppy, quiet: bool = False) -> Cpi:
    return watch_driver(driver, None if quiet else driver.inventory)  # type: ignore[arg-type] # only what is called


FINE = CpiError("the disk was not made", remedy="try again")


def test_a_good_driver_passes_unnoticed() -> None:
    cpi: Any = watch(Sloppy(None))
    assert cpi.create_disk(1) == "d-1"
    assert cpi.cloud == "sloppy"
    with pytest.raises(CpiError):
        watch(Sloppy(FINE)).has_disk("d-1")


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("boom"), TimeoutError()])
def test_no_other_class_escapes(error: Exception) -> None:
    for quiet in (True, False):
        with pytest.raises(AssertionError, match="not a contract error"):
            watch(Sloppy(error), quiet).has_disk("d-1")


@pytest.mark.parametrize(
    "error", [CpiError("no", remedy=""), CpiError(" ", remedy="r"), CpiError("CpiError", remedy="r")]
)
def test_errors_have_words(error: CpiError) -> None:
    with pytest.raises(AssertionError):
        watch(Sloppy(error)).has_disk("d-1")


def test_what_a_failing_call_leaves_behind_is_seen() -> None:
    with pytest.raises(AssertionError, match=r"left behind \[\('disk', 'd-1'\)\]"):
        watch(Sloppy(FINE, leaks=True)).create_disk(1, {}, mark=None)  # type: ignore[arg-type] # never read


def test_an_unknown_outcome_may_have_made_something() -> None:
    with pytest.raises(OutcomeUnknown):
        watch(Sloppy(OutcomeUnknown("lost", remedy="look"), leaks=True)).create_disk(1, {}, mark=None)  # type: ignore[arg-type] # never read
