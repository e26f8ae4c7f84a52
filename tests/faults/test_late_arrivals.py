"""Objects that show up late: recorded while a step waits for them, orphans once no step does."""

from __future__ import annotations

import time

import pytest

from tests.faults.bending import Bend, run_bent
from tests.faults.trial import DYNAMIC, Trial, trial
from tests.kill.bench import Bench
from tests.kill.labels import labels_in
from tests.kill.scenario import group, manifest
from tests.kill.truth import intent_of

CREATES = ("create_vm", "create_disk", "create_image")
LATE_MS = 700  # later than the first look
VERY_LATE_MS = 2_000


@pytest.mark.parametrize("create", CREATES)
def test_within_the_settling_time_it_is_reclaimed(bench: Bench, create: str) -> None:
    with trial(bench, _pair(), settle_s=30.0) as tried:
        tried.bend(*_lost_and_late(create, LATE_MS))
        tried.deploy()
        tried.assert_converged()
        assert sum("object.reclaimed" in event for event in tried.events()) == 1
        assert not [row for row in tried.book().objects if row.tombstone]


@pytest.mark.parametrize("create", CREATES)
def test_after_the_settling_time_it_is_an_orphan_with_a_tombstone(bench: Bench, create: str) -> None:
    with trial(bench, _pair()) as tried:
        tried.bend(*_lost_and_late(create, VERY_LATE_MS))
        book = tried.deploy()
        known = {row.intent: row for row in book.objects}
        (orphan,) = _wait_for_orphans(tried)
        assert (known[orphan].state, known[orphan].tombstone) == ("gone", True)
        assert book.tasks[-1].state == "done"
        assert sum(row.tombstone for row in book.objects) == 1


@pytest.mark.parametrize(
    ("phase", "label"), [("create", "node.create.await_up"), ("upgrade", "node.recreate.await_up")]
)
def test_a_vm_that_lists_do_not_show_yet_is_waited_for(bench: Bench, phase: str, label: str) -> None:
    reached = run_bent(bench, phase, [Bend("create_vm", "late-visibility", ms=VERY_LATE_MS)])
    assert label in labels_in(point.kind for point in reached)


def _pair() -> dict[str, object]:
    """The cloud chooses the addresses: an orphan that holds a fixed one would be in the way of its successor."""
    return manifest(group("one", 1, networks=DYNAMIC, persistent_disk=256), group("two", 1, networks=DYNAMIC))


def _lost_and_late(create: str, ms: int) -> tuple[Bend, Bend]:
    return Bend(create, "timeout-after-commit"), Bend(create, "late-visibility", ms=ms)


def _wait_for_orphans(tried: Trial) -> set[str]:
    """Marks in the cloud that the ledger has given up, once the late object shows."""
    book = tried.book()
    living = {row.intent for row in book.objects if row.state in ("live", "kept")}
    for _ in range(300):
        cloud = tried.cloud()
        orphans = {intent_of(thing) for thing in (*cloud.vms, *cloud.disks, *cloud.images)} - living
        if orphans:
            return orphans
        time.sleep(0.1)
    raise AssertionError("the late object never showed")
