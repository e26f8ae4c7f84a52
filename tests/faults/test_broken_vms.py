"""VMs that come up broken: replaced a few times, then a person is told, and the other nodes go on."""

from __future__ import annotations

from tests.faults.bending import Bend, run_bent
from tests.faults.trial import DYNAMIC, states, trial
from tests.kill.bench import Bench
from tests.kill.labels import labels_in
from tests.kill.scenario import group, manifest

BROKEN_UNNOTICED = (Bend("create_vm", "timeout-after-commit"), Bend("create_vm", "vm-error-state"))


def test_a_vm_that_the_driver_finds_broken_is_made_again(bench: Bench) -> None:
    run_bent(bench, "create", [Bend("create_vm", "vm-error-state", times=2)])


def test_a_vm_that_is_found_broken_later_is_replaced(bench: Bench) -> None:
    reached = run_bent(bench, "create", list(BROKEN_UNNOTICED))
    assert {"node.create.retire", "node.create.intend"} <= labels_in(point.kind for point in reached)


def test_after_three_broken_vms_the_node_fails_with_the_reason_and_the_others_come_up(bench: Bench) -> None:
    wanted = manifest(
        group("one", 1, networks=DYNAMIC), group("two", 1, networks=DYNAMIC), update={"canaries": 0, "max_in_flight": 1}
    )
    with trial(bench, wanted) as tried:
        tried.bend(*(Bend(one.method, one.mode, times=3) for one in BROKEN_UNNOTICED))
        book = tried.deploy()
        assert states(book) == {"one/0": "failing", "two/0": "up"}
        (problem,) = (row.problem for row in book.nodes if row.state == "failing")
        assert "state error 3 times" in problem["what"]
        assert problem["remedy"]
        assert {row.cid for row in book.of("vm", "live")} == {vm.id for vm in tried.cloud().vms}
        (failure,) = book.tasks[-1].report["failures"]
        assert failure["subject"] == "one/0"
        tried.deploy()
        tried.assert_converged()
