"""Heartbeats: which conductors are removed, and which are spared after the database was away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from coterie.conductor.membership import Heartbeat
from coterie.engine.fence import Lease
from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors
from coterie.settings import load
from coterie.telemetry.process import BEATS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def join(ledger: Ledger, name: str) -> None:
    with ledger.write() as tx:
        conductors.register(tx, name, "1", group="", drivers=[], release="0.1.0", ttl_s=5.0)


def silence(ledger: Ledger, name: str) -> None:
    with ledger.write() as tx:
        tx.execute(sa.text("UPDATE conductors SET heartbeat = heartbeat - 60 WHERE name = :name"), {"name": name})


def names(ledger: Ledger) -> list[str]:
    with ledger.read() as tx:
        return [member.name for member in conductors.fleet(tx).members]


def heartbeat(ledger: Ledger, clock: Clock, refused: Callable[[], None] = lambda: None) -> Heartbeat:
    return Heartbeat(ledger, "me", "1", Lease(5.0, clock), 5.0, refused=refused, after=lambda: None)


def test_only_conductors_without_heartbeat_are_removed(ledger: Ledger) -> None:
    for name in ("me", "dead", "live"):
        join(ledger, name)
    silence(ledger, "dead")
    assert heartbeat(ledger, Clock())._beat()
    assert names(ledger) == ["live", "me"]


def test_the_heartbeat_of_a_removed_conductor_is_refused(ledger: Ledger) -> None:
    join(ledger, "me")
    with ledger.write() as tx:
        conductors.leave(tx, "me", "1")
    assert not heartbeat(ledger, Clock())._beat()


def test_after_an_outage_others_get_time_for_a_heartbeat(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    join(ledger, "me")
    join(ledger, "other")
    clock = Clock()
    mine = heartbeat(ledger, clock)
    beats = iter([RuntimeError("the database is away"), None])

    def wait(seconds: float) -> bool:
        return next(turns)

    turns = iter([False, True])
    monkeypatch.setattr(mine._over, "wait", wait)
    monkeypatch.setattr(mine, "_beat", lambda: (_ for _ in ()).throw(next(beats) or AssertionError()))
    mine.run()
    monkeypatch.undo()
    silence(ledger, "other")
    assert mine._beat()
    assert names(ledger) == ["me", "other"]
    clock.now += 11
    assert mine._beat()
    assert names(ledger) == ["me"]


def test_a_refusal_is_final(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    mine = heartbeat(ledger, Clock(), lambda: calls.append("refused"))
    monkeypatch.setattr(mine._over, "wait", lambda seconds: False)
    mine.run()  # no conductor of this name is registered
    assert calls == ["refused"]


def test_heartbeats_are_counted_by_outcome(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    join(ledger, "me")
    mine = heartbeat(ledger, Clock())
    outcomes = iter([mine._beat, mine._beat, lambda: 1 / 0, lambda: False])
    monkeypatch.setattr(mine._over, "wait", lambda seconds: False)
    monkeypatch.setattr(mine, "_beat", lambda: next(outcomes)())
    before = _beats()
    mine.run()
    assert {name: count - before.get(name, 0) for name, count in _beats().items()} == {
        "accepted": 2,
        "failed": 1,
        "refused": 1,
    }


def _beats() -> dict[str, float]:
    return {labels["outcome"]: count for _, labels, count in BEATS.samples()}


def test_by_default_a_dead_conductor_is_found_within_ten_seconds() -> None:
    """Its lease has to end, and then another one has to beat: every fifth of a lease."""
    lease: float = load({}, {"HOME": "/nowhere"})["lease"]
    assert lease + lease / 5 < 10
