"""Waiting: until a look finds something, with a last look at the limit."""

from __future__ import annotations

import pytest

from coterie.cpi.kit.waits import Overdue, Waits


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.rests: list[float] = []
        monkeypatch.setattr("coterie.cpi.kit.waits.time.monotonic", lambda: self.now)
        monkeypatch.setattr("coterie.cpi.kit.waits.time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.rests.append(round(seconds, 3))
        self.now += seconds


def test_looks_become_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = Clock(monkeypatch), [None, None, None, None, "there"]
    assert Waits(60, 1, slowest_poll_s=2, growth=1.5).until("it", lambda: looks.pop(0), first_s=0.5) == "there"
    assert clock.rests == [0.5, 1, 1.5, 2, 2]


def test_the_last_look_is_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(Overdue, match="the boot did not happen within 3 s") as caught:
        Waits(60, 2).until("the boot", lambda: None, 3, why="it is asleep", details={"machine": "m1"})
    assert clock.now == 3
    assert caught.value.details["machine"] == "m1"
    assert caught.value.why == "it is asleep"
    assert caught.value.remedy
