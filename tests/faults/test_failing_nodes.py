"""A node that cannot be made: its neighbours go on, unless it was the canary that they wait for."""

from __future__ import annotations

import pytest

from tests.faults.bending import Bend
from tests.faults.trial import states, trial
from tests.kill.bench import Bench
from tests.kill.scenario import group, manifest

NO_HOST = Bend("create_vm", "error", code="no_host", retryable=False)


@pytest.mark.parametrize("max_in_flight", [1, 3])
def test_one_failing_node_does_not_stop_the_others(bench: Bench, max_in_flight: int) -> None:
    wanted = manifest(group("one", 3), update={"canaries": 0, "max_in_flight": max_in_flight})
    with trial(bench, wanted) as tried:
        tried.bend(NO_HOST)
        book = tried.deploy()
        assert sorted(states(book).values()) == ["failing", "up", "up"], tried.story([])
        assert book.tasks[-1].state == "failed"
        assert book.tasks[-1].report["steps"] == {"done": 3, "failed": 1}
        tried.deploy()
        tried.assert_converged()


def test_a_failing_canary_stops_its_group_only(bench: Bench) -> None:
    wanted = manifest(group("one", 3), group("two", 2), update={"canaries": 1, "max_in_flight": 3, "serial": False})
    with trial(bench, wanted) as tried:
        tried.bend(NO_HOST)
        book = tried.deploy()
        assert states(book) == {
            "one/0": "failing",
            "one/1": "planned",
            "one/2": "planned",
            "two/0": "up",
            "two/1": "up",
        }, tried.story([])
        assert len(tried.cloud().vms) == 2
        assert book.tasks[-1].report["steps"] == {"done": 3, "failed": 1, "skipped": 2}
        tried.deploy()
        tried.assert_converged()


def test_a_failure_that_is_cured_by_waiting_is_no_failure(bench: Bench) -> None:
    with trial(bench, manifest(group("one", 2))) as tried:
        tried.bend(Bend("create_vm", "error", code="unavailable", times=4))
        tried.deploy(tries=6)
        tried.assert_converged()
