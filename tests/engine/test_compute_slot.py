"""Turns: one thread computes, the next in line follows, and nobody waits for one who does not pass it on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from coterie.engine.compute_slot import Pace, Turn
from tests.cluster.fleet import until


def start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_threads_compute_one_after_another_in_the_order_they_came() -> None:
    turn, came, at_once = Turn(lapse_s=60, shift_s=60), [], []

    def work(number: int) -> None:
        with turn.taken():
            at_once.append(number)
            assert at_once == [number]
            came.append(number)
            at_once.remove(number)

    turn.take()
    threads = []
    for number in range(5):
        threads.append(start(lambda number=number: work(number)))
        until(lambda number=number: len(turn._line) == number + 1, "it is not in line", 10)
    turn.take()
    turn.give_up()
    for thread in threads:
        thread.join(10)
    assert came == [0, 1, 2, 3, 4]


def test_a_thread_that_keeps_its_turn_and_is_not_heard_of_is_passed_by() -> None:
    turn, went = Turn(), threading.Event()
    turn.take()
    start(lambda: (turn.take(), went.set()))
    assert went.wait(10), "it waits for ever"
    assert not turn.mine
    turn.give_up()  # of a turn that is another's by now
    assert turn._holder is not None


def test_a_thread_that_goes_on_and_on_lets_others_in() -> None:
    turn, went = Turn(lapse_s=60, shift_s=0.05), threading.Event()
    turn.take()

    def other() -> None:
        with turn.taken():
            went.set()

    start(other)
    until(lambda: bool(turn._line), "it is not in line", 10)
    assert not went.is_set()
    until(lambda: turn.take() or went.is_set(), "it keeps its turn for ever", 10)
    turn.give_up()


def test_all_who_wait_get_in_though_every_holder_falls_asleep() -> None:
    turn, went, all_there, over = Turn(), [], threading.Barrier(20), threading.Event()

    def work() -> None:
        all_there.wait(10)
        turn.take()
        went.append(threading.get_ident())
        over.wait(10)

    threads = [start(work) for _ in range(20)]
    until(lambda: len(went) == 20, "some wait for ever", 10)
    over.set()
    for thread in threads:
        thread.join(10)
    assert len(set(went)) == 20


def test_only_methods_that_are_slow_again_and_again_are_taken_to_wait() -> None:
    pace = Pace()
    for _ in range(15):
        pace.note("create_vm", 1.0)
    assert not pace.waits("create_vm")
    pace.note("create_vm", 1.0)
    assert pace.waits("create_vm")
    assert not pace.waits("find")
    pace.note("create_vm", 0.001)
    assert not pace.waits("create_vm")
