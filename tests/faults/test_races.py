"""Races that the matrices once met by chance, each brought about on purpose."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from coterie.conductor.workers import Watchdog
from coterie.engine.committer import Committer
from coterie.errors import Conflict
from coterie.ids import Ids
from coterie.ledger import writes
from coterie.ledger.rows import clouds, facts, objects
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.ledger.store import time as moment
from coterie.ledger.work import conductors, steps, tasks
from coterie.ledger.work.steps import Claim, Outcome
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.requests import start
from tests.ledger import alone

LAB = CloudRow("lab", "sandbox", {"account": "a"}, "")


@pytest.mark.parametrize("late_first", [True, False])
def test_a_late_outcome_beside_the_valid_one_of_its_step_changes_nothing(ledger: Ledger, late_first: bool) -> None:
    late, valid = _hand_over(ledger)
    batch = [_done(late, "late"), _done(valid, "valid")]
    with ledger.write() as tx:
        applied = steps.commit(tx, batch if late_first else batch[::-1])
        made = {row.ref for row in (objects.get(tx, _intent(name)) for name in ("late", "valid")) if row}
    assert applied == {valid.key}
    assert made == {"valid"}


def test_an_outcome_that_cannot_be_committed_does_not_take_others_with_it(ledger: Ledger) -> None:
    good, bad = _claims(ledger, 2)
    told: dict[int, tuple[bool, BaseException | None]] = {}
    committer = Committer(
        ledger, lambda outcome, applied, problem: told.update({outcome.claim.id: (applied, problem)}), lambda: 0
    )
    batch = [_done(good, "good"), _done(bad, "bad")]
    batch[1].writes.append(writes.update("objects", {"no such column": 1}, state="live"))
    committer._apply(batch)
    committer.close()
    assert told[good.id] == (True, None)
    assert told[bad.id][0] is False
    assert told[bad.id][1] is not None


def test_a_lone_outcome_is_committed_without_waiting_for_another(ledger: Ledger) -> None:
    told: queue.Queue[bool] = queue.Queue()
    committer = Committer(ledger, lambda outcome, applied, problem: told.put(applied), under_way=lambda: 0)
    for claim in _claims(ledger, 200):
        committer.submit(_done(claim, str(claim.id)))
        assert told.get(timeout=60) is True
    committer.close()


def test_an_outcome_waits_for_one_that_is_under_way(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (_done(claim, str(claim.id)) for claim in _claims(ledger, 2))
    sizes: list[int] = []
    told: queue.Queue[bool] = queue.Queue()
    original, late = steps.commit, [second]

    def commit(tx: Any, batch: list[Outcome], admitted: list[Any]) -> set[tuple[int, int]]:
        sizes.append(len(batch))
        return original(tx, batch, admitted)

    def under_way() -> int:
        if not late:
            return 0
        committer.submit(late.pop())
        return 1

    monkeypatch.setattr(steps, "commit", commit)
    committer = Committer(ledger, lambda outcome, applied, problem: told.put(applied), under_way)
    committer.submit(first)
    assert [told.get(timeout=60), told.get(timeout=60)] == [True, True]
    committer.close()
    assert sizes == [2]


def test_a_thread_that_leaves_a_step_already_claimed_again_has_not_been_replaced(ledger: Ledger) -> None:
    """Otherwise a step that rests shortly costs a worker each time, until none is left."""
    first, second = _hand_over(ledger)
    watchdog = Watchdog(ledger, 600.0, lambda claim: None)
    watchdog.enter(first)
    watchdog.enter(second)
    assert watchdog.leave(first) is False
    assert watchdog.leave(second) is False


def test_a_step_whose_label_ends_while_others_are_handed_back_is_not_given_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its next label would run under a claim that this process itself gave back."""
    slow, quick = _claims(ledger, 2)
    replaced: list[int] = []
    watchdog = Watchdog(ledger, 0.0, lambda claim: replaced.append(claim.id))
    watchdog.enter(slow)
    watchdog.enter(quick)
    original = steps.hand_back

    def meanwhile(tx: Any, claim: Claim, rest_s: float = 0.0) -> bool:
        assert watchdog.leave(quick) is False
        watchdog.enter(quick)
        return original(tx, claim, rest_s)

    monkeypatch.setattr(steps, "hand_back", meanwhile)
    watchdog.look()
    assert replaced == [slow.id]
    assert watchdog.leave(slow) is True
    assert watchdog.leave(quick) is False


def test_what_comes_of_a_step_while_it_is_handed_back_is_not_wanted(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claim,) = _claims(ledger, 1)
    replaced: list[int] = []
    watchdog = Watchdog(ledger, 0.0, lambda claim: replaced.append(claim.id))

    def broken(tx: Any, claim: Claim, rest_s: float = 0.0) -> bool:
        left.append(watchdog.leave(claim))
        raise OSError("the database does not answer")

    left: list[bool] = []
    monkeypatch.setattr(steps, "hand_back", broken)
    watchdog.enter(claim)
    with pytest.raises(OSError):
        watchdog.look()
    assert (left, replaced) == ([True], [claim.id]), "its thread ends, and needs a successor"


def test_a_question_asked_again_while_it_is_answered_keeps_what_the_next_answer_needs(ledger: Ledger) -> None:
    (taken,), asked_at = _ask_and_take(ledger, "a#1")
    with ledger.write() as tx:
        while facts.want(tx, LAB, "check", {}) <= asked_at:
            pass  # SQLite's clock counts milliseconds
        facts.answer(tx, "a#1", taken, asked_at, {"old": True}, None)
    (again,), asked_at = _take(ledger, "a#1")
    assert again.properties == LAB.properties
    with ledger.write() as tx:
        facts.answer(tx, "a#1", again, asked_at, {"new": True}, None)
        assert not facts.open_questions(tx, alone.SHARE)
    assert _take(ledger, "a#1")[0] == []


def test_a_question_that_a_dead_conductor_took_is_open_for_its_successor(ledger: Ledger) -> None:
    with ledger.write() as tx:
        conductors.register(tx, "a", "1", group="", drivers=["sandbox"], release="1")
    _ask_and_take(ledger, "a#1")
    assert _take(ledger, "a#2")[0] == []
    with ledger.write() as tx:
        conductors.register(tx, "a", "2", group="", drivers=["sandbox"], release="1")
    assert [question.what for question in _take(ledger, "a#2")[0]] == ["check"]


def test_a_kept_disk_whose_deletion_was_cancelled_can_be_deleted_still(ledger: Ledger) -> None:
    intent = _keep_disk(ledger)
    first = start.delete_kept_disks(ledger, [intent], None)
    with pytest.raises(Conflict):
        start.delete_kept_disks(ledger, [intent], None)
    start.cancel(ledger, first)
    assert start.delete_kept_disks(ledger, [intent], None) > first


def _keep_disk(ledger: Ledger) -> str:
    intent = Ids().intent()
    with ledger.write() as tx:
        clouds.set_config(tx, "clouds", [LAB])
        writes.execute(tx, objects.intend(intent, "disk", "lab"))
        writes.execute(tx, objects.record_created(intent, "disk-1"))
        writes.execute(tx, objects.keep(intent))
    return intent


def _claims(ledger: Ledger, count: int) -> list[Claim]:
    new = [NewStep("flow", "begin", f"n{number}", {}) for number in range(count)]
    with ledger.write() as tx:
        tasks.create(tx, NewTask("test", "d", [NewStage("s", new)]))
        return alone.claim(tx, count)


def _hand_over(ledger: Ledger) -> tuple[Claim, Claim]:
    """Two claims of one step, of which the second holds."""
    (first,) = _claims(ledger, 1)
    with ledger.write() as tx:
        steps.hand_back(tx, first)
        (second,) = alone.claim(tx)
    return first, second


def _done(claim: Claim, name: str) -> Outcome:
    made = objects.intend(_intent(name), "vm", "lab", ref=name)
    return Outcome(claim, "done", claim.label, claim.data, writes=[made])


def _intent(name: str) -> str:
    return name.rjust(26, "0")


def _ask_and_take(ledger: Ledger, read_holder: str) -> tuple[list[facts.Wanted], float]:
    with ledger.write() as tx:
        facts.want(tx, LAB, "check", {})
    return _take(ledger, read_holder)


def _take(ledger: Ledger, read_holder: str) -> tuple[list[facts.Wanted], float]:
    with ledger.write() as tx:
        taken = facts.claim(tx, read_holder, 600.0, alone.SHARE)
        return [] if taken is None else [taken], moment(tx)
