"""Workers by themselves: what becomes of a step whose label ended, whose commit failed, whose claim is another's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from coterie.conductor.hand_back import Returns
from coterie.conductor.inbox import Inbox
from coterie.conductor.workers import Workers
from coterie.engine.runner import Runner
from coterie.errors import LeaseLost
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.steps import Claim, Outcome
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask, create
from tests.cluster.fleet import until
from tests.ledger import alone

Label = Callable[[Claim], Outcome]


class Place:
    def __init__(self, ledger: Ledger, label: Label) -> None:
        self.ledger = ledger
        self.inbox = Inbox(workers=2, per_cloud=2)
        self.owed: list[int] = []
        runner, returns = cast(Runner, Script(label)), cast(Returns, Ledgerless(self.owed))
        self.workers = Workers(ledger, self.inbox, runner, returns, 2, call_timeout_s=0.0)

    @property
    def next_step(self) -> int:
        with self.ledger.read() as tx:
            return 1 + int(tx.exec_driver_sql("SELECT coalesce(max(id), 0) FROM steps").scalar_one())

    def give(self, count: int) -> list[Claim]:
        new = [NewStep("flow", "one", f"n{number}", {}) for number in range(count)]
        with self.ledger.write() as tx:
            create(tx, NewTask("test", "d", [NewStage("s", new)]))
            claims = alone.claim(tx, count)
        self.inbox.put(claims)
        return claims


class Script:
    """A runner with one label for all."""

    def __init__(self, run: Label) -> None:
        self.run = run


class Ledgerless:
    def __init__(self, owed: list[int]) -> None:
        self._owed = owed

    def owe(self, claim: Claim) -> None:
        self._owed.append(claim.id)


@contextmanager
def working(ledger: Ledger, label: Label) -> Iterator[Place]:
    place = Place(ledger, label)
    place.workers.start()
    yield place
    place.inbox.close()
    place.workers.end(10)


def done(claim: Claim) -> Outcome:
    return Outcome(claim, "done", claim.label, {})


def test_a_step_goes_on_with_what_its_last_label_committed(ledger: Ledger) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def label(claim: Claim) -> Outcome:
        seen.append((claim.label, claim.data))
        return Outcome(claim, "next", "two", {"x": 1}) if claim.label == "one" else done(claim)

    with working(ledger, label) as place:
        place.give(1)
        until(lambda: not place.inbox.steps and len(seen) == 2, "it does not end", 10)
    assert seen == [("one", {}), ("two", {"x": 1})]
    assert place.owed == []


@pytest.mark.parametrize("error", [LeaseLost("gone"), RuntimeError("a defect"), SystemExit(3)])
def test_a_label_that_breaks_costs_no_worker_and_its_step_is_owed(ledger: Ledger, error: BaseException) -> None:
    bad: set[int] = set()

    def label(claim: Claim) -> Outcome:
        if claim.id in bad:
            raise error
        return done(claim)

    with working(ledger, label) as place:
        for _ in range(3):
            bad.add(place.next_step)
            place.give(2)
            until(lambda: not place.inbox.steps, "something is left", 10)
        assert [thread.is_alive() for thread in place.workers._threads] == [True, True]
    assert place.owed == sorted(bad)


def test_a_refused_and_a_broken_commit_both_owe_the_step(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [set(), OSError("no database")]

    def commit(tx: Any, outcomes: Any) -> set[tuple[int, int]]:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return cast(set[tuple[int, int]], answer)

    monkeypatch.setattr(steps, "commit", commit)
    with working(ledger, done) as place:
        refused = place.give(1)
        until(lambda: len(place.owed) == 1 and not place.inbox.steps, "the refused one is not owed", 10)
        broken = place.give(1)
        until(lambda: len(place.owed) == 2 and not place.inbox.steps, "the broken one is not owed", 10)
    assert place.owed == [refused[0].id, broken[0].id]


def test_what_a_label_came_to_after_it_was_written_off_is_not_committed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on, committed = threading.Event(), threading.Event(), []

    def label(claim: Claim) -> Outcome:
        hanging.set()
        go_on.wait(10)
        return done(claim)

    monkeypatch.setattr(steps, "commit", lambda tx, outcomes: committed.append(outcomes))
    with working(ledger, label) as place:
        (claim,) = place.give(1)
        assert hanging.wait(10)
        before = set(place.workers._threads)
        place.workers.watchdog.look()
        after = set(place.workers._threads)
        assert len(after) == 2, "the written-off thread is forgotten, and has a successor"
        assert len(after - before) == 1
        assert place.inbox.steps == set()
        go_on.set()
        until(lambda: place.owed == [claim.id], "it is not dropped", 10)
    assert committed == []


def test_what_ran_when_the_end_came_is_committed_and_goes_no_further(ledger: Ledger) -> None:
    runs, began, go_on = [], threading.Event(), threading.Event()

    def label(claim: Claim) -> Outcome:
        runs.append(claim.label)
        began.set()
        go_on.wait(10)
        return Outcome(claim, "next", "two", {"x": 1})

    place = Place(ledger, label)
    place.workers.start()
    (claim,) = place.give(1)
    assert began.wait(10)
    place.inbox.close()
    go_on.set()
    place.workers.end(10)
    assert runs == ["one"]
    with ledger.read() as tx:
        step = tx.exec_driver_sql(f"SELECT label, state FROM steps WHERE id = {claim.id}").one()
    assert tuple(step) == ("two", "running")
