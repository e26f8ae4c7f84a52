"""A stemcell whose upload failed, or whose outcome is unknown: the next deployment finds out and goes on."""

from __future__ import annotations

from coterie.sandbox import faults
from tests.faults.bending import Bend
from tests.faults.trial import states, trial
from tests.kill.bench import Bench
from tests.kill.scenario import group, manifest

WANTED = manifest(group("one", 1))


def test_a_refused_upload_leaves_nothing_and_is_made_up_for(bench: Bench) -> None:
    with trial(bench, WANTED) as tried:
        tried.bend(Bend("create_image", "error", code="over_quota", retryable=False))
        book = tried.deploy()
        assert (book.tasks[-1].state, states(book)) == ("failed", {"one/0": "planned"})
        assert [row.state for row in book.objects] == ["gone"]
        tried.deploy()
        tried.assert_converged()


def test_an_upload_of_unknown_outcome_is_settled_by_the_next_deployment(bench: Bench) -> None:
    with trial(bench, WANTED) as tried:
        tried.bend(Bend("create_image", "timeout-after-commit"), Bend("list_images", "error", times=1000))
        book = tried.deploy(tries=3)
        assert (book.tasks[-1].state, [row.state for row in book.objects]) == ("failed", ["unknown"])
        with tried.world.operator() as account:
            faults.clear(account.datacenter.store)
        tried.deploy()
        tried.assert_converged()
