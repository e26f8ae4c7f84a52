"""Workers alone: what becomes of a step whose label ended, whose commit failed, that another conductor claimed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from coterie.conductor.inbox import Inbox
from coterie.conductor.workers import HandBackQueue, Workers
from coterie.engine.runner import Runner
from coterie.errors import LeaseLost
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.ledger.work.steps import Claim, Outcome
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask, create
from tests.cluster.fleet import until
from tests.ledger import alone

Label = Callable[[Claim], Outcome]


class WorkersUnderTest:
    def __init__(self, ledger: Ledger, label: Label) -> None:
        self.ledger = ledger
        self.inbox = Inbox(workers=2, per_cloud=2)
        self.handed_back: list[int] = []
        runner, hand_backs = cast(Runner, Script(label)), cast(HandBackQueue, RecordingQueue(self.handed_back))
        self.workers = Workers(
            ledger,
            self.inbox,
            runner,
            hand_backs,
            2,
            call_timeout_s=0.0,
            find_owners=lambda admitted: set(),
            on_room=lambda: None,
        )

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


class RecordingQueue:
    def __init__(self, handed_back: list[int]) -> None:
        self._claims = handed_back

    def add(self, claim: Claim) -> None:
        self._claims.append(claim.id)


@contextmanager
def working(ledger: Ledger, label: Label) -> Iterator[WorkersUnderTest]:
    place = WorkersUnderTest(ledger, label)
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
        until(lambda: not place.inbox.steps and len(seen) == 2, "it does not end", 60)
    assert seen == [("one", {}), ("two", {"x": 1})]
    assert place.handed_back == []


@pytest.mark.parametrize("error", [LeaseLost("gone"), RuntimeError("a defect"), SystemExit(3)])
def test_a_label_that_raises_ends_no_worker_and_its_step_goes_back(ledger: Ledger, error: BaseException) -> None:
    bad: set[int] = set()

    def label(claim: Claim) -> Outcome:
        if claim.id in bad:
            raise error
        return done(claim)

    with working(ledger, label) as place:
        for _ in range(3):
            bad.add(place.next_step)
            place.give(2)
            until(lambda: not place.inbox.steps, "something is left", 60)
        assert [thread.is_alive() for thread in place.workers._threads] == [True, True]
    assert place.handed_back == sorted(bad)


def test_after_a_refused_or_a_failed_commit_the_step_goes_back(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [set(), OSError("no database")]

    def commit(tx: Any, outcomes: Any, admitted: Any) -> set[tuple[int, int]]:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return cast(set[tuple[int, int]], answer)

    monkeypatch.setattr(steps, "commit", commit)
    with working(ledger, done) as place:
        refused = place.give(1)
        until(lambda: len(place.handed_back) == 1 and not place.inbox.steps, "the refused one does not go back", 60)
        broken = place.give(1)
        until(lambda: len(place.handed_back) == 2 and not place.inbox.steps, "the failed one does not go back", 60)
    assert place.handed_back == [refused[0].id, broken[0].id]


def test_the_outcome_of_a_label_that_was_given_up_is_not_committed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, go_on, committed = threading.Event(), threading.Event(), []

    def label(claim: Claim) -> Outcome:
        hanging.set()
        go_on.wait(60)
        return done(claim)

    monkeypatch.setattr(steps, "commit", lambda tx, outcomes, admitted: committed.append(outcomes))
    with working(ledger, label) as place:
        (claim,) = place.give(1)
        assert hanging.wait(60)
        before = set(place.workers._threads)
        place.workers.watchdog.look()
        after = set(place.workers._threads)
        assert len(after) == 2, "the hanging thread is forgotten, and another one replaces it"
        assert len(after - before) == 1
        assert place.inbox.steps == set()
        go_on.set()
        until(lambda: place.handed_back == [claim.id], "it is not dropped", 60)
    assert committed == []


def test_a_label_that_runs_during_the_drain_is_committed_and_its_step_stops(ledger: Ledger) -> None:
    runs, began, go_on = [], threading.Event(), threading.Event()

    def label(claim: Claim) -> Outcome:
        runs.append(claim.label)
        began.set()
        go_on.wait(60)
        return Outcome(claim, "next", "two", {"x": 1})

    place = WorkersUnderTest(ledger, label)
    place.workers.start()
    (claim,) = place.give(1)
    assert began.wait(60)
    place.inbox.close()
    go_on.set()
    place.workers.end(10)
    assert runs == ["one"]
    with ledger.read() as tx:
        step = tx.exec_driver_sql(f"SELECT label, state FROM steps WHERE id = {claim.id}").one()
    assert tuple(step) == ("two", "running")
