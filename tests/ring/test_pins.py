"""A pin of a Director without a conductor: it builds the ring keys of that release, as a pinned conductor does."""

from __future__ import annotations

import pytest

from coterie.cli.conductors import release_shown
from coterie.ledger.store import Ledger
from coterie.ledger.views.conductors import page
from coterie.ledger.views.page import Slice
from coterie.ledger.work import conductors
from coterie.settings import values


def test_a_pinned_director_builds_the_keys_of_its_release(ledger: Ledger) -> None:
    with ledger.write() as tx:
        conductors.register(tx, "c", "1", group="rack1", drivers=["a"], release="0.1.0")
    for pin, grouped in ((None, True), ("0.0", False), ("0.1", True)):
        ledger.pin(pin)
        with ledger.read() as tx:
            fleet = conductors.living(tx)
        assert fleet.grouped == grouped
        assert fleet.key("rack1", "a") == ("rack1:a" if grouped else "a")
        assert list(fleet.keys()) == ["rack1:a" if grouped else "a"]


def test_a_pin_is_shown_with_its_conductor(ledger: Ledger) -> None:
    with ledger.write() as tx:
        conductors.register(tx, "c", "1", group="rack1", drivers=["a"], release="0.1.0", pinned="0.0")
        conductors.register(tx, "d", "1", group="rack1", drivers=["a"], release="0.1.0")
    with ledger.read() as tx:
        shown = {row["name"]: release_shown(row) for row in page(tx, Slice(10)).items}
    assert shown == {"c": "0.1.0, pinned to 0.0", "d": "0.1.0"}


def test_an_unknown_release_cannot_be_pinned() -> None:
    assert values.release("0.0") == "0.0"
    with pytest.raises(ValueError, match="that this one"):
        values.release("99.0")
