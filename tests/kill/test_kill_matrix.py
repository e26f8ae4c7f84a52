"""A Director is killed before and after every commit and every cloud call; whoever starts it again loses nothing."""

from __future__ import annotations

import pytest

from tests.kill.matrix import Matrix
from tests.kill.points import SIDES, Point
from tests.kill.scenario import phases

PHASES = [phase.name for phase in phases()]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_once_at_each_kind_of_point(matrix: Matrix, phase: str) -> None:
    before = matrix.recording.kinds().keys() | matrix.seen
    points = matrix.recording.first_of_each(phase)
    matrix.kill_all(phase, points)
    discovered = {point.kind for point in points} | (matrix.seen - before)
    missed = {Point(kind, side) for kind in discovered for side in SIDES} - matrix.killed
    assert not missed, f"discovered, but nobody was killed there: {sorted(map(str, missed))}"


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_every_single_point(matrix: Matrix, phase: str) -> None:
    points = matrix.recording.all_of(phase)
    matrix.kill_all(phase, points)
    missed = set(points) - matrix.killed
    assert not missed, f"discovered, but nobody was killed there: {sorted(map(str, missed))}"


def test_the_scenario_reaches_every_kind_of_work(matrix: Matrix) -> None:
    kinds = matrix.recording.kinds()
    families = {kind.split()[0] for kind in kinds}
    assert families == {"commit", "call", "cloud"}
