"""What a service refuses before it starts: a database that does not answer, a clock that is off, a missing key."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from coterie.conductor.startup import ClockOff, check_clock, connect, key_file
from coterie.errors import Refused, Unreachable
from coterie.ledger.rows import keys
from coterie.ledger.store import Ledger
from coterie.settings import Settings, load


@pytest.mark.parametrize("off_s", [-3600.0, -45.0, 45.0, 3600.0])
def test_a_clock_that_is_off_is_refused_with_a_remedy(ledger: Ledger, off_s: float) -> None:
    with pytest.raises(ClockOff) as caught:
        check_clock(ledger, lambda: time.time() + off_s)
    assert f"{abs(off_s):.0f} s off" in caught.value.what
    assert caught.value.remedy


def test_a_good_clock_and_a_slow_answer_pass(ledger: Ledger) -> None:
    check_clock(ledger)
    moments = iter([time.time() - 40, time.time() + 40])  # the query took very long, and the answer lies between
    check_clock(ledger, lambda: next(moments))


def test_the_error_for_a_silent_database_hides_the_password() -> None:
    with pytest.raises(Unreachable) as caught:
        connect("postgresql://coterie:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(caught.value.facts())


def settings(state: Path, **more: str) -> Settings:
    return load({"state": str(state)}, {"HOME": "/", **more})


def test_the_first_conductor_creates_the_key_and_one_without_it_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    first = key_file(ledger, settings(tmp_path / "a"), "east").newest()
    assert first is not None
    with ledger.read() as tx:
        assert [key.id for key in keys.own(tx, "east")] == [first.public.id]
    with pytest.raises(Refused, match="no key of its group 'east'") as refused:
        key_file(ledger, settings(tmp_path / "b"), "east")
    assert "copy the key file" in refused.value.remedy
    copied = tmp_path / "copied.key"
    copied.write_bytes((tmp_path / "a" / "conductor.key").read_bytes())
    copied.chmod(0o600)
    with_copy = settings(tmp_path / "b", COTERIE_KEY_FILE=str(copied))
    assert key_file(ledger, with_copy, "east").newest() == first


def test_each_group_has_a_key_and_so_has_the_conductor_for_every_group(ledger: Ledger, tmp_path: Path) -> None:
    made = {group: key_file(ledger, settings(tmp_path / str(group)), group).newest() for group in ("east", "", None)}
    assert len({key.public.id for key in made.values() if key}) == 3
    with ledger.read() as tx:
        stand_in = keys.own(tx, keys.EVERY)[0]
        assert [keys.of_group(tx, group)[0].id for group in ("east", "west")] == [
            made["east"].public.id if made["east"] else "",
            stand_in.id,
        ]


def test_a_restart_keeps_the_key(ledger: Ledger, tmp_path: Path) -> None:
    first = key_file(ledger, settings(tmp_path), None).newest()
    assert key_file(ledger, settings(tmp_path), None).newest() == first
    with ledger.read() as tx:
        assert len(keys.own(tx, keys.EVERY)) == 1
