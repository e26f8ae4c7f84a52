"""A cloud that refuses one call as one too many gets all calls of its class more slowly, and the others as before."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import Throttled
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.pace import Pace


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> Pace:
    return Pace(time.clock, time.sleep)


def begin(pace: Pace, time: Time, calls: int) -> list[float]:
    """When so many calls begin, one after the other, each at once."""
    return [round(pace.wait_to_begin().began - 100.0, 3) for _ in range(calls)]


def test_nothing_waits_before_the_first_refusal(pace: Pace, time: Time) -> None:
    assert begin(pace, time, 5) == [0.0] * 5


def test_after_a_refusal_calls_follow_each_other_with_a_rest(pace: Pace, time: Time) -> None:
    pace.wait_to_begin().slow_down()
    assert begin(pace, time, 3) == [0.1, 0.2, 0.3]
    pace.wait_to_begin().slow_down()
    assert begin(pace, time, 2) == [0.6, 0.8]


def test_retry_after_is_obeyed_by_the_whole_class(pace: Pace, time: Time) -> None:
    pace.wait_to_begin().slow_down(retry_after=3.0)
    assert begin(pace, time, 2) == [3.0, 3.1]


def test_calls_that_are_refused_together_count_once(pace: Pace, time: Time) -> None:
    calls = [pace.wait_to_begin() for _ in range(10)]
    time.now += 1
    for call in calls:
        call.slow_down()
    assert pace.rest_s == 0.1


def test_answered_calls_bring_the_old_pace_back(pace: Pace, time: Time) -> None:
    pace.wait_to_begin().slow_down()
    for _ in range(10):
        pace.speed_up()
    assert pace.rest_s == 0.0


def test_a_call_that_would_wait_long_is_refused_before_anything_is_done(pace: Pace, time: Time) -> None:
    pace.wait_to_begin().slow_down(retry_after=60.0)
    with pytest.raises(Throttled) as refused:
        pace.wait_to_begin()
    assert refused.value.retryable and refused.value.details == {"retry_after": 60.0}
    assert time.now == 100.0


def test_classes_of_a_cloud_have_paces_of_their_own() -> None:
    limit = CallLimit(4)
    with limit.pace("create") as call:
        call.slow_down(retry_after=60.0)
    with limit.pace("list"):
        pass
    with pytest.raises(Throttled), limit.pace("create"):
        raise AssertionError("it was let through")
    assert limit.calls == 2
