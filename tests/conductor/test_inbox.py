"""Steps reach workers in order, and a cloud that hangs keeps only its part of them."""

from __future__ import annotations

import threading

from coterie.conductor.inbox import Inbox
from coterie.engine.compute_slot import ComputeSlot
from coterie.ledger.work.steps import Claim
from tests.cluster.fleet import until


def claim(number: int, cloud: str | None = "a") -> Claim:
    return Claim(number, 1, 1, "flow", "begin", f"s{number}", None, cloud, 1, 0, None, {}, "me#1")


def test_steps_come_out_in_the_order_of_the_queue() -> None:
    inbox = Inbox(workers=4, per_cloud=4)
    inbox.put([claim(1), claim(2)])
    assert [inbox.get(), inbox.get()] == [claim(1), claim(2)]


def test_a_cloud_at_its_limit_is_skipped_until_one_of_its_steps_ends() -> None:
    inbox = Inbox(workers=4, per_cloud=2)
    inbox.put([claim(1), claim(2), claim(3), claim(4, "b"), claim(5, None)])
    first = inbox.get()
    assert first == claim(1)
    assert [inbox.get(), inbox.get(), inbox.get()] == [claim(2), claim(4, "b"), claim(5, None)]
    inbox.finish(first)
    inbox.finish(first)
    assert inbox.get() == claim(3)
    assert inbox.steps == {2, 3, 4, 5}


def test_no_more_is_taken_than_workers_can_soon_run() -> None:
    inbox = Inbox(workers=8, per_cloud=6)
    assert inbox.capacity() == (12, [])
    inbox.put([claim(n) for n in range(10)])
    assert inbox.capacity() == (6, ["a"])
    inbox.put([claim(n, "b") for n in range(10, 14)])
    assert inbox.capacity() == (0, ["a"])
    assert inbox.tasks == {1}


def test_a_conductor_with_one_worker_takes_steps_too() -> None:
    inbox = Inbox(workers=1, per_cloud=1)
    assert inbox.capacity() == (2, [])
    inbox.put([claim(1)])
    assert inbox.capacity() == (1, [])


def test_closing_ends_every_waiting_worker_and_drops_steps_that_have_not_begun() -> None:
    inbox = Inbox(workers=2, per_cloud=2)
    inbox.put([claim(1)])
    running = inbox.get()
    answers: list[Claim | None] = []
    workers = [threading.Thread(target=lambda: answers.append(inbox.get()), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    inbox.put([claim(2), claim(3), claim(4)])
    inbox.finish(running or claim(1))
    for _ in range(2):
        inbox.close()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    assert inbox.get() is None
    assert 4 not in inbox.steps


def test_a_step_that_goes_on_comes_before_those_that_have_not_begun() -> None:
    inbox = Inbox(workers=2, per_cloud=2)
    inbox.put([claim(1), claim(2)])
    first = inbox.get() or claim(0)
    assert inbox.commit(first) is True
    assert (inbox.under_way, inbox.steps) == (0, {1, 2})
    inbox.resume(first)
    assert [inbox.get(), inbox.get()] == [claim(1), claim(2)]


def test_a_step_is_finished_before_another_takes_its_place() -> None:
    """With one worker there is one order of events, no matter what is committed meanwhile."""
    inbox = Inbox(workers=1, per_cloud=1)
    inbox.put([claim(1), claim(2)])
    first = inbox.get() or claim(0)
    inbox.commit(first)
    assert not inbox._has_next()
    inbox.resume(first)
    assert inbox.get() == claim(1)
    inbox.commit(first)
    inbox.finish(first)
    assert inbox.get() == claim(2)


def test_a_step_that_was_given_up_is_not_committed() -> None:
    inbox = Inbox(workers=2, per_cloud=2)
    inbox.put([claim(1)])
    hanging = inbox.get() or claim(0)
    inbox.finish(hanging)
    assert inbox.commit(hanging) is False
    assert inbox.steps == set()


def test_a_closed_inbox_takes_no_step_back() -> None:
    inbox = Inbox(workers=2, per_cloud=2)
    inbox.put([claim(1)])
    running = inbox.get() or claim(0)
    inbox.commit(running)
    inbox.close()
    inbox.resume(running)
    inbox.finish(running)
    assert inbox.steps == set()
    assert inbox.get() is None


def test_one_quick_worker_runs_all_steps_and_a_slow_one_delays_no_other() -> None:
    slot, began, slow = ComputeSlot(lapse_s=60, shift_s=60), [], threading.Event()
    inbox = Inbox(workers=4, per_cloud=4, slot=slot)

    def work() -> None:
        while (found := inbox.get()) is not None:
            began.append((found.id, threading.get_ident()))
            if found.id >= 100:
                slot.release()
                slow.wait(60)
            inbox.finish(found)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    until(lambda: inbox._idle == 4, "they do not rest", 60)
    inbox.put([claim(number) for number in range(50)])
    until(lambda: len(began) == 50, "not all have begun", 60)
    assert len({thread for _, thread in began}) <= 2, "the others were woken in vain"
    until(lambda: inbox._idle == 4, "they do not rest again", 60)
    inbox.put([claim(number) for number in range(100, 104)])
    until(lambda: len(began) == 54, "a worker that waits for its cloud delays the others", 60)
    slow.set()
    inbox.close()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
