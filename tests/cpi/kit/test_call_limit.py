"""At most so many calls run at a time, whichever thread and driver of the cloud makes them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coterie.cpi.contract import Unavailable
from coterie.cpi.kit.call_limit import CallLimit, call_limit


class CountingCloud:
    def __init__(self) -> None:
        self.running = self.highest = 0
        self._lock = threading.Lock()

    def call(self) -> None:
        with self._lock:
            self.running += 1
            self.highest = max(self.highest, self.running)
        time.sleep(0.005)
        with self._lock:
            self.running -= 1


@pytest.mark.parametrize("most", [1, 3])
def test_the_cloud_never_sees_more_calls_at_once(most: int) -> None:
    cloud, limit = CountingCloud(), CallLimit(most)

    def work(_: int) -> None:
        with limit:
            cloud.call()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(48)))
    assert cloud.highest == most == limit.highest
    assert limit.calls == 48


def test_calls_are_counted_for_each_thread() -> None:
    limit = CallLimit(4)

    def work(calls: int) -> int:
        for _ in range(calls):
            with limit, limit:
                pass
        return limit.calls_of_thread

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        assert (first.submit(work, 3).result(), second.submit(work, 5).result()) == (3, 5)
    assert (limit.calls, limit.calls_of_thread) == (8, 0)


def test_a_call_inside_a_call_takes_no_second_slot() -> None:
    limit = CallLimit(1, wait_s=0.01)
    with limit, limit:
        pass
    with limit:
        pass
    assert limit.calls == 2


def test_a_slot_is_given_back_after_a_failure() -> None:
    limit = CallLimit(1, wait_s=0.01)
    with pytest.raises(RuntimeError), limit:
        raise RuntimeError
    with limit:
        pass


def test_waiting_ends_in_a_retryable_error() -> None:
    limit = CallLimit(1, wait_s=0.01)
    refused: list[Unavailable] = []

    def other() -> None:
        try:
            with limit:
                pass
        except Unavailable as error:
            refused.append(error)

    with limit:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert refused[0].retryable and "max_parallel_calls" in refused[0].why


def test_drivers_of_one_cloud_share_its_limit() -> None:
    shared = call_limit("c1", 4, "d1")
    assert call_limit("c1", 4, "d1") is shared
    assert call_limit("c2", 4, "d1") is not shared
    assert call_limit("c1", 4, "d2") is not shared
    assert call_limit("c1", 5, "d1") is not shared
