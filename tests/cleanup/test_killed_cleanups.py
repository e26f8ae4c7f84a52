"""Kill a cleanup at every kind of moment: the next one goes on, leaves nothing, and takes nothing that is not ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from coterie.cleanup.flows import FLOWS
from tests.cleanup.remains import Remains
from tests.kill.labels import all_labels, labels_in
from tests.kill.nursery import Nursery
from tests.kill.points import Point, first_of_each_kind, merge_by_moment


@pytest.fixture(params=["sqlite", "postgresql"])
def remains(request: pytest.FixtureRequest, nursery: Nursery, tmp_path: Path) -> Remains:
    server = request.getfixturevalue("postgres_server") if request.param == "postgresql" else None
    return Remains(nursery, tmp_path, server)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("remains", ["sqlite"], indirect=True)
def test_a_cleanup_that_died_after_any_kind_of_work_is_finished_by_the_next(remains: Remains) -> None:
    points = remains.points()
    assert all_labels(FLOWS) <= labels_in(point.kind for point in points)
    after = [point for point in first_of_each_kind(points) if point.side == "after"]
    assert _wrong(remains, merge_by_moment(after, points)) == {}


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_cleanup_that_died_at_any_kind_of_moment_is_finished_by_the_next(remains: Remains) -> None:
    assert _wrong(remains, first_of_each_kind(remains.points())) == {}


def _wrong(remains: Remains, points: Iterable[Point]) -> dict[str, list[str]]:
    return {str(point): found for point in points if (found := remains.die_and_go_on(point))}
