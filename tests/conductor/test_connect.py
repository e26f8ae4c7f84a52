"""What a service refuses before it starts: a silent database, a clock that is off."""

from __future__ import annotations

import time

import pytest

from coterie.conductor.connect import ClockOff, check_clock, connect
from coterie.errors import Unreachable
from coterie.ledger.store import Ledger


@pytest.mark.parametrize("off_s", [-3600.0, -45.0, 45.0, 3600.0])
def test_a_clock_that_is_off_is_refused_with_a_remedy(ledger: Ledger, off_s: float) -> None:
    with pytest.raises(ClockOff) as caught:
        check_clock(ledger, lambda: time.time() + off_s)
    assert f"{abs(off_s):.0f} s off" in caught.value.what
    assert caught.value.remedy


def test_a_good_clock_and_a_slow_answer_pass(ledger: Ledger) -> None:
    check_clock(ledger)
    moments = iter([time.time() - 40, time.time() + 40])  # asking took very long, and the answer lies between
    check_clock(ledger, lambda: next(moments))


def test_a_silent_database_is_told_without_its_password() -> None:
    with pytest.raises(Unreachable) as caught:
        connect("postgresql://coterie:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(caught.value.facts())
