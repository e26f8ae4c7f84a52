"""Kill a deployment at every step, never resume it, clean up: nothing of ours is left, and nothing foreign is lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from coterie.engine.committer import Committer
from tests.cleanup.leaks import FOREIGN, Leaks
from tests.kill.nursery import Nursery
from tests.kill.points import Point, commit_of, first_of_each_kind, merge_by_moment

# The moments at which something is in the cloud that the ledger does not know of, or the other way round.
_DELICATE = ("call create", "cloud ", commit_of(Committer._apply))


def test_a_deployment_that_died_after_any_call_or_commit_leaves_nothing(nursery: Nursery, tmp_path: Path) -> None:
    leaks = Leaks(nursery, tmp_path)
    points = leaks.points()
    delicate = list(filter(_is_delicate, first_of_each_kind(points)))
    assert len(delicate) > 20
    assert {point.kind.split()[0] for point in delicate} == {"call", "cloud", "commit"}
    assert _wrong(leaks, merge_by_moment(delicate, points)) == {}


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_deployment_that_died_anywhere_leaves_nothing(nursery: Nursery, tmp_path: Path) -> None:
    leaks = Leaks(nursery, tmp_path)
    assert _wrong(leaks, first_of_each_kind(leaks.points())) == {}


def _is_delicate(point: Point) -> bool:
    return point.side == "after" and point.kind.startswith(_DELICATE)


def _wrong(leaks: Leaks, points: Iterable[Point]) -> dict[str, list[str]]:
    assert len(leaks.foreign) >= FOREIGN
    return {str(point): found for point in points if (found := leaks.die_and_clean(point))}
