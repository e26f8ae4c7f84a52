"""A Director is killed before and after every commit and every cloud call; after a restart nothing is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from coterie.conductor.membership import Heartbeat
from coterie.conductor.process import Conductor
from coterie.engine.committer import Committer
from tests.kill.matrix import Matrix
from tests.kill.points import SIDES, Point, commit_of
from tests.kill.scenario import phases

PHASES = [phase.name for phase in phases()]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_once_at_each_kind_of_point(matrix: Matrix, phase: str) -> None:
    known = set(matrix.seen)
    points = [point for point in matrix.recording.first_of_each(phase) if _depends_on_database(matrix, point)]
    matrix.kill_at_each_moment(phase, points)
    discovered = {Point(kind, side) for kind in matrix.seen - known for side in SIDES}
    _assert_all_killed(matrix, {*points, *discovered})


def _depends_on_database(matrix: Matrix, point: Point) -> bool:
    """Only an open transaction is left behind in another way by PostgreSQL; the rest is struck by `full` on both."""
    return matrix.bench.server is None or (point.kind.startswith("commit ") and point.side == "before")


def _assert_all_killed(matrix: Matrix, points: set[Point]) -> None:
    missed = sorted(map(str, points - matrix.killed))
    assert not missed, f"discovered, but no process was killed there: {missed}"


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_every_single_point(matrix: Matrix, phase: str) -> None:
    points = matrix.recording.all_of(phase)
    matrix.kill_each(phase, points)
    _assert_all_killed(matrix, set(points))


def test_commits_calls_and_changes_of_the_cloud_are_all_seen(matrix: Matrix) -> None:
    """The interception itself: with one of its parts gone, the matrix above would be empty and green."""
    kinds = matrix.recording.kinds()
    counted = Counter(kind.split()[0] for kind in kinds)
    assert counted.keys() == {"commit", "call", "cloud", "client"}
    for made in ("create_stemcell", "create_server_group", "create_vm", "create_disk"):
        assert f"call {made}" in kinds
    assert commit_of(Conductor.start) in kinds
    assert any(kind.startswith("commit requests.") and kind.endswith(" deploy") for kind in kinds)
    assert any(kind.startswith(commit_of(Committer._apply)) for kind in kinds)
    reached = {point.kind for points in matrix.recording.points.values() for point in points}
    assert commit_of(Heartbeat._beat) in reached
