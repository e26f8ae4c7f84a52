"""A jump of the database's clock ends no grace period."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from coterie.cleanup.clock import note_clock
from coterie.ledger.store import Ledger
from coterie.ledger.tables import clocks, events, suspects

DAY_S = 86_400.0


def mark(ledger: Ledger, since: float) -> None:
    row = {"cloud": "lab", "kind": "vm", "cid": "vm-1", "since": since, "cleanup": 1}
    with ledger.write() as tx:
        tx.execute(suspects.insert().values(**row))


def since(ledger: Ledger) -> float:
    with ledger.read() as tx:
        return float(tx.execute(sa.select(suspects.c.since)).scalar_one())


def jump(ledger: Ledger, seconds: float) -> None:
    """The database's clock goes on by so much while the machines run on for no time."""
    with ledger.write() as tx:
        tx.execute(clocks.update().values(at=clocks.c.at - seconds))


@pytest.mark.parametrize("seconds", [3 * DAY_S, -3 * DAY_S])
def test_a_jump_is_noticed_and_shifts_what_was_marked_before(ledger: Ledger, seconds: float) -> None:
    mark(ledger, 1_000_000.0)
    assert note_clock(ledger, "boot", 10.0) == 0.0
    jump(ledger, seconds)
    assert note_clock(ledger, "boot", 10.0) == pytest.approx(seconds, abs=30)
    assert since(ledger) == pytest.approx(1_000_000.0 + seconds, abs=30)
    assert note_clock(ledger, "boot", 10.0) == 0.0, "noticed once"
    with ledger.read() as tx:
        assert tx.execute(sa.select(events.c.kind)).scalars().all() == ["clock.jumped"]


def test_two_machines_do_not_shift_twice(ledger: Ledger) -> None:
    mark(ledger, 1_000_000.0)
    for boot in ("one", "two"):
        note_clock(ledger, boot, 10.0)
    jump(ledger, DAY_S)
    assert note_clock(ledger, "one", 10.0) == pytest.approx(DAY_S, abs=30)
    assert note_clock(ledger, "two", 10.0) == 0.0
    assert since(ledger) == pytest.approx(1_000_000.0 + DAY_S, abs=30)


def test_time_that_passes_on_both_clocks_is_no_jump(ledger: Ledger) -> None:
    mark(ledger, 1_000_000.0)
    note_clock(ledger, "boot", 10.0)
    jump(ledger, 3 * DAY_S)
    assert note_clock(ledger, "boot", 10.0 + 3 * DAY_S) == 0.0
    assert since(ledger) == 1_000_000.0


def test_a_machine_that_was_started_anew_begins_anew(ledger: Ledger) -> None:
    mark(ledger, 1_000_000.0)
    note_clock(ledger, "boot", 10.0)
    jump(ledger, 3 * DAY_S)
    assert note_clock(ledger, "another", 1.0) == 0.0
    assert since(ledger) == 1_000_000.0
