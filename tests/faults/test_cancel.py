"""A task that is cancelled at any moment leaves a state from which the next deployment goes on."""

from __future__ import annotations

import pytest

from tests.kill.bench import Bench, Failure
from tests.kill.points import Point, read_trace
from tests.kill.scenario import phases

PHASES = [phase.name for phase in phases() if phase.ask != "nothing"]
_WORK = ("commit engine.", "commit requests.")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("phase", PHASES)
def test_cancelled_after_each_kind_of_work_and_asked_for_again(bench: Bench, phase: str) -> None:
    for point in bench.recording.first_of_each(phase):
        if point.side == "after" and _is_work(bench, point.kind):
            _cancel_and_go_on(bench, phase, point)


def test_there_is_work_to_cancel(bench: Bench) -> None:
    """With the names of `_WORK` out of date, the test above would do nothing and be green."""
    kinds = bench.recording.kinds()
    assert all(any(kind.startswith(work) for kind in kinds) for work in _WORK)
    assert sum(_is_work(bench, kind) for kind in kinds) > len(PHASES)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("phase", PHASES)
def test_cancelled_after_every_single_piece_of_work(bench: Bench, phase: str) -> None:
    for point in bench.recording.all_of(phase):
        if point.side == "after" and point.kind.startswith(("call ", *_WORK)):
            _cancel_and_go_on(bench, phase, point)


def _is_work(bench: Bench, kind: str) -> bool:
    """Between a commit and its cloud call the database makes no difference: on PostgreSQL only commits count here."""
    return kind.startswith(_WORK) or (bench.server is None and kind.startswith("call "))


def _cancel_and_go_on(bench: Bench, phase: str, point: Point) -> None:
    with bench.beginning(phase) as (start, world):
        order = bench.order(start, world, target=point, action="cancel")
        bench.finish(start, world, order, f"cancelled {point}")
        if point not in read_trace(order.trace):
            raise Failure(f"{phase}: never reached {point}")
