"""Claims, fences and stages, on both databases."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ledger.rows import objects
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.tables import events as events_table
from coterie.ledger.tables import objects as objects_table
from coterie.ledger.tables import stages as stages_table
from coterie.ledger.tables import steps as steps_table
from coterie.ledger.tables import tasks as tasks_table
from coterie.ledger.work import conductors, steps, tasks
from coterie.ledger.work.steps import Claim, Outcome
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from tests.ledger import alone


def new_steps(count: int, prefix: str = "n") -> list[NewStep]:
    return [NewStep("flow", "begin", f"{prefix}{i}", {}) for i in range(count)]


def create(ledger: Ledger, *stages: NewStage) -> int:
    with ledger.write() as tx:
        return tasks.create(tx, NewTask("test", "d", stages))


def claim(ledger: Ledger, limit: int = 100, owner: str = "a#1") -> list[Claim]:
    with ledger.write() as tx:
        return alone.claim(tx, limit, owner=owner)


def end(ledger: Ledger, *claims: Claim, move: Any = "done") -> set[int]:
    with ledger.write() as tx:
        applied = steps.commit(tx, [Outcome(c, move, c.label, c.data, error={"what": "x"}) for c in claims])
    return {step for step, _ in applied}


def states(ledger: Ledger) -> dict[str, str]:
    with ledger.read() as tx:
        return {row.subject: row.state for row in tx.execute(sa.select(steps_table))}


def task_state(ledger: Ledger, task: int) -> str:
    with ledger.read() as tx:
        found: str = tx.execute(sa.select(tasks_table.c.state).where(tasks_table.c.id == task)).scalar_one()
        return found


def test_a_stage_admits_no_more_than_it_may(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(5), max_in_flight=2))
    first = claim(ledger)
    assert [c.subject for c in first] == ["n0", "n1"]
    end(ledger, first[0])
    assert [c.subject for c in claim(ledger)] == ["n2"]


def test_a_stage_waits_for_what_it_needs(ledger: Ledger) -> None:
    task = create(ledger, NewStage("one", new_steps(2, "a")), NewStage("two", new_steps(1, "b"), [(0, "done")]))
    first = claim(ledger)
    assert {c.subject for c in first} == {"a0", "a1"}
    end(ledger, first[0])
    assert claim(ledger) == []
    end(ledger, first[1])
    (last,) = claim(ledger)
    end(ledger, last)
    assert task_state(ledger, task) == "done"


def test_a_failed_canary_skips_what_needs_it_and_the_rest_of_its_stage(ledger: Ledger) -> None:
    task = create(
        ledger,
        NewStage("canary", new_steps(2, "c"), max_in_flight=1, stop_on_failure=True),
        NewStage("rest", new_steps(2, "r"), [(0, "done")]),
        NewStage("after", new_steps(1, "z"), [(1, "ended")]),
    )
    (canary,) = claim(ledger)
    end(ledger, canary, move="fail")
    (after,) = claim(ledger)
    assert after.subject == "z0"
    end(ledger, after)
    assert states(ledger) == {"c0": "failed", "c1": "skipped", "r0": "skipped", "r1": "skipped", "z0": "done"}
    assert task_state(ledger, task) == "failed"


def test_other_failures_stop_no_step(ledger: Ledger) -> None:
    task = create(ledger, NewStage("s", new_steps(3), max_in_flight=1))
    for move in ("done", "fail", "done"):
        (one,) = claim(ledger)
        end(ledger, one, move=move)
    assert states(ledger) == {"n0": "done", "n1": "failed", "n2": "done"}
    assert task_state(ledger, task) == "failed"


def test_a_late_result_leaves_no_trace(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(1)))
    (mine,) = claim(ledger, owner="a#1")
    with ledger.write() as tx:
        assert steps.hand_back_all(tx, "a#1") == [mine.task]
    (theirs,) = claim(ledger, owner="b#1")
    late = Outcome(mine, "done", "begin", {}, writes=[objects.intend("i" * 26, "vm", "c")])
    with ledger.write() as tx:
        assert steps.commit(tx, [late]) == set()
        assert tx.execute(sa.select(sa.func.count()).select_from(objects_table)).scalar_one() == 0
    assert states(ledger) == {"n0": "running"}
    assert end(ledger, theirs) == {theirs.id}


def test_the_same_owner_is_fenced_by_epoch(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(1)))
    (first,) = claim(ledger)
    with ledger.write() as tx:
        assert steps.hand_back(tx, first)
    (second,) = claim(ledger)
    assert second.epoch > first.epoch
    assert end(ledger, first) == set()
    assert end(ledger, second) == {second.id}
    assert end(ledger, second) == set()


def test_a_silent_conductor_loses_its_steps_and_a_live_one_keeps_them(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(2)))
    with ledger.write() as tx:
        for name in ("dead", "live"):
            conductors.register(tx, name, "1", group="", drivers=[], release="0")
    (lost,) = claim(ledger, 1, owner="dead#1")
    (kept,) = claim(ledger, 1, owner="live#1")
    with ledger.write() as tx:
        tx.execute(sa.text("UPDATE conductors SET heartbeat = heartbeat - 100 WHERE name = 'dead'"))
        assert conductors.reap(tx) == [lost.task]
        assert not conductors.beat(tx, "dead", "1")
        assert conductors.beat(tx, "live", "1")
    assert end(ledger, lost) == set()
    assert end(ledger, kept) == {kept.id}


def test_a_step_without_a_living_owner_goes_back(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(1)))
    (lost,) = claim(ledger, owner="left#1")
    with ledger.write() as tx:
        assert conductors.reap(tx) == [lost.task]
    (again,) = claim(ledger, owner="b#1")
    assert again.epoch > lost.epoch


def test_unknown_flows_are_left_for_a_newer_release(ledger: Ledger) -> None:
    create(ledger, NewStage("s", [NewStep("from.the.future", "begin", "x", {})]))
    assert claim(ledger) == []


def test_cancel_stops_what_has_not_started_and_ends_with_what_runs(ledger: Ledger) -> None:
    task = create(ledger, NewStage("s", new_steps(3), max_in_flight=1), NewStage("t", new_steps(1, "t"), [(0, "done")]))
    (running,) = claim(ledger)
    with ledger.write() as tx:
        assert tasks.cancel(tx, task)
    assert task_state(ledger, task) == "cancelling"
    assert claim(ledger) == []
    end(ledger, running)
    assert task_state(ledger, task) == "cancelled"
    with ledger.write() as tx:
        assert not tasks.cancel(tx, task)


def test_a_cancel_that_comes_too_late_to_stop_anything_leaves_the_task_done(ledger: Ledger) -> None:
    task = create(ledger, NewStage("s", new_steps(1)))
    (last,) = claim(ledger)
    with ledger.write() as tx:
        assert tasks.cancel(tx, task)
    end(ledger, last)
    assert task_state(ledger, task) == "done"


@pytest.mark.parametrize("first", ["rest", "cancel"])
def test_a_cancel_at_the_moment_of_a_rest_is_not_missed(ledger: Ledger, first: str) -> None:
    task = create(ledger, NewStage("s", new_steps(1)))
    (held,) = claim(ledger)

    def rest(tx: Tx) -> None:
        assert steps.commit(tx, [Outcome(held, "wait", "begin", {}, delay_s=0.0)]) == {held.key}

    def cancel(tx: Tx) -> None:
        assert tasks.cancel(tx, task)

    def run_second() -> None:
        with ledger.write() as tx:
            (cancel if first == "rest" else rest)(tx)

    second = threading.Thread(target=run_second)
    with ledger.write() as tx:
        (rest if first == "rest" else cancel)(tx)
        second.start()
        second.join(0.5)  # it reads what the first one has not committed yet, or waits for it
    second.join(20)
    assert claim(ledger) == [], "no label runs after the cancel"
    assert task_state(ledger, task) == "cancelled"


def test_cancel_is_seen_by_a_step_that_was_handed_over(ledger: Ledger) -> None:
    task = create(ledger, NewStage("s", new_steps(1)))
    claim(ledger, owner="dead#1")
    with ledger.write() as tx:
        tasks.cancel(tx, task)
        steps.hand_back_all(tx, "dead#1")
    (again,) = claim(ledger, owner="b#1")
    with ledger.write() as tx:
        steps.commit(tx, [Outcome(again, "wait", "begin", {}, delay_s=0.0)])
    assert task_state(ledger, task) == "cancelled"


def test_events_are_numbered_without_gaps_in_commit_order(ledger: Ledger) -> None:
    from coterie.ledger.rows.events import Event

    task = create(ledger, NewStage("s", new_steps(20)))
    claims = claim(ledger)

    def run(mine: list[Claim]) -> None:
        for one in mine:
            happened = [Event(task, "e", one.subject, str(i)) for i in range(3)]
            with ledger.write() as tx:
                steps.commit(tx, [Outcome(one, "done", "begin", {}, events=happened)])

    threads = [threading.Thread(target=run, args=(claims[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ledger.read() as tx:
        numbers = list(tx.execute(sa.select(events_table.c.n).order_by(events_table.c.n)).scalars())
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == 1 + 60 + 1
    assert task_state(ledger, task) == "done"


def test_many_claimers_never_share_a_step(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(200)))
    taken: list[int] = []

    def run(name: str) -> None:
        while claimed := claim(ledger, 7, owner=name):
            taken.extend(c.id for c in claimed)

    threads = [threading.Thread(target=run, args=(f"c{i}#1",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 200
    assert len(set(taken)) == 200


@pytest.mark.parametrize("limit", [1, 3])
def test_a_claim_takes_no_more_than_its_limit(ledger: Ledger, limit: int) -> None:
    create(ledger, NewStage("s", new_steps(10)))
    assert len(claim(ledger, limit)) == limit


def test_an_empty_task_ends_at_once(ledger: Ledger) -> None:
    task = create(ledger)
    assert task_state(ledger, task) == "done"
    with ledger.read() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(stages_table)).scalar_one() == 0


def test_outcomes_of_one_task_are_committed_side_by_side(postgres_url: str) -> None:
    """Steps that go on, and steps of other stages that end, do not wait for each other's transactions."""
    ledger = Ledger.open(postgres_url)
    try:
        create(ledger, NewStage("a", new_steps(2, "a")), NewStage("b", new_steps(2, "b")))
        first, second, third, _ = sorted(claim(ledger), key=lambda one: one.subject)
        with ledger.write() as tx, ledger.write() as beside:
            beside.execute(sa.text("SET LOCAL lock_timeout = '2s'"))
            assert steps.commit(tx, [Outcome(first, "done", "begin", {})])
            assert steps.commit(beside, [Outcome(second, "next", "go_on", {}), Outcome(third, "done", "begin", {})])
    finally:
        ledger.close()


def test_a_commit_tells_which_steps_it_admitted(ledger: Ledger) -> None:
    create(ledger, NewStage("s", new_steps(3), max_in_flight=1), NewStage("t", new_steps(1, "t"), [(0, "done")]))
    for expected in (1, 1, 1, 0):
        (one,) = claim(ledger)
        admitted: list[Any] = []
        with ledger.write() as tx:
            steps.commit(tx, [Outcome(one, "done", "begin", {})], admitted)
        assert len(admitted) == expected
