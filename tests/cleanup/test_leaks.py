"""Kill a deployment at every step, never resume it, clean up: nothing of ours is left, and nothing foreign is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.engine.committer import Committer
from tests.cleanup.leaks import FOREIGN, Leaks
from tests.kill.nursery import Nursery
from tests.kill.points import Point, commit_of

# The moments at which something is in the cloud that the ledger does not know of, or the other way round.
_DELICATE = ("call create", "cloud ", commit_of(Committer._apply))


def _run(folder: Path, wanted: str) -> None:
    with Nursery() as nursery:
        leaks = Leaks(nursery, folder)
        assert len(leaks.foreign) >= FOREIGN
        points = [point for point in leaks.points() if wanted == "all" or _delicate(point)]
        assert len(points) > 20
        assert {point.kind.split()[0] for point in points} == {"call", "cloud", "commit"}
        wrong = {str(point): found for point in points if (found := leaks.die_and_clean(point))}
    assert wrong == {}


def _delicate(point: Point) -> bool:
    return point.side == "after" and point.kind.startswith(_DELICATE)


def test_a_deployment_that_died_after_any_call_or_commit_leaves_nothing(tmp_path: Path) -> None:
    _run(tmp_path, "delicate")


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_deployment_that_died_anywhere_leaves_nothing(tmp_path: Path) -> None:
    _run(tmp_path, "all")
