"""The compute slot: one thread computes, the next in line follows, and no thread waits for one that keeps the slot."""

from __future__ import annotations

import threading
from collections.abc import Callable

from coterie.engine.compute_slot import ComputeSlot, SlowCalls
from tests.cluster.fleet import until


def start(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_threads_compute_one_after_another_in_the_order_they_came() -> None:
    slot, came, at_once = ComputeSlot(lapse_s=60, shift_s=60), [], []

    def work(number: int) -> None:
        with slot.hold():
            at_once.append(number)
            assert at_once == [number]
            came.append(number)
            at_once.remove(number)

    slot.acquire()
    threads = []
    for number in range(5):
        threads.append(start(lambda number=number: work(number)))
        until(lambda number=number: len(slot._line) == number + 1, "it is not in line", 60)
    slot.acquire()
    slot.release()
    for thread in threads:
        thread.join(60)
    assert came == [0, 1, 2, 3, 4]


def test_a_thread_that_keeps_its_turn_and_is_not_heard_of_is_passed_by() -> None:
    slot, went = ComputeSlot(), threading.Event()
    slot.acquire()
    start(lambda: (slot.acquire(), went.set()))
    assert went.wait(60), "it waits for ever"
    assert not slot.mine
    slot.release()  # of a turn that is another's by now
    assert slot._holder is not None


def test_a_thread_that_goes_on_and_on_lets_others_in() -> None:
    slot, went = ComputeSlot(lapse_s=60, shift_s=0.05), threading.Event()
    slot.acquire()

    def other() -> None:
        with slot.hold():
            went.set()

    start(other)
    until(lambda: bool(slot._line), "it is not in line", 60)
    assert not went.is_set()
    until(lambda: slot.acquire() or went.is_set(), "it keeps its turn for ever", 60)
    slot.release()


def test_all_who_wait_get_in_though_every_holder_falls_asleep() -> None:
    slot, went, all_there, over = ComputeSlot(), [], threading.Barrier(20), threading.Event()

    def work() -> None:
        all_there.wait(60)
        slot.acquire()
        went.append(threading.get_ident())
        over.wait(60)

    threads = [start(work) for _ in range(20)]
    until(lambda: len(went) == 20, "some wait for ever", 60)
    over.set()
    for thread in threads:
        thread.join(60)
    assert len(set(went)) == 20


def test_only_methods_that_are_slow_again_and_again_are_taken_to_wait() -> None:
    calls = SlowCalls()
    for _ in range(15):
        calls.note("create_vm", 1.0)
    assert not calls.is_slow("create_vm")
    calls.note("create_vm", 1.0)
    assert calls.is_slow("create_vm")
    assert not calls.is_slow("find")
    calls.note("create_vm", 0.001)
    assert not calls.is_slow("create_vm")
