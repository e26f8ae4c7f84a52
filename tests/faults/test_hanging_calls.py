"""A call that hangs: its step is handed over, and what the call makes in the end is found and used, not doubled."""

from __future__ import annotations

from tests.faults.bending import Bend
from tests.faults.trial import trial
from tests.kill.bench import Bench
from tests.kill.scenario import group, manifest

HANG_MS = 4_000
IMPATIENT = {"call_timeout_s": 0.5, "workers": 2}


def test_a_hanging_create_is_handed_over_and_reclaimed(bench: Bench) -> None:
    with trial(bench, manifest(group("one", 1, persistent_disk=256), group("two", 1)), settle_s=60.0) as tried:
        tried.bend(Bend("create_vm", "hang", ms=HANG_MS))
        order = tried.order(**IMPATIENT)
        tried.run(order)
        tried.assert_converged()
        assert "hangs; it is tried again" in order.log.read_text()
        assert sum("object.reclaimed" in event for event in tried.events()) == 1
        assert [row.state for row in tried.book().objects if row.kind == "vm"] == ["live", "live"]


def test_a_hanging_delete_is_handed_over_and_repeated(bench: Bench) -> None:
    with trial(bench, manifest(group("one", 2))) as tried:
        tried.deploy()
        tried.change(manifest(group("one", 1)))
        tried.bend(Bend("delete_vm", "hang", ms=HANG_MS))
        tried.deploy(**IMPATIENT)
        tried.assert_converged()
