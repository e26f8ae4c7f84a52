"""VMs under one mark: repeated, at once, after a lost answer and after a failure there is one VM, or none."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import allow_not_found, expect_error, together, wait_for
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError, OutcomeUnknown, Throttled, VMNotFound


@proves("create_vm")
def test_the_same_mark_answers_the_first_vm(lab: Lab) -> None:
    lab.needs("find")
    arguments = lab.vm_arguments()
    first = lab.cpi.create_vm(**arguments)
    lab.undo(lab.cpi.delete_vm, first.cid)
    before = lab.inventory()
    assert lab.cpi.create_vm(**arguments).cid == first.cid
    assert lab.inventory() == before


@proves("create_vm")
def test_the_same_mark_at_the_same_time_makes_one_vm(lab: Lab) -> None:
    lab.needs("find")
    arguments = lab.vm_arguments()
    before = {cid for kind, cid in lab.inventory() if kind == "vm"}
    calls = [partial(lab.bed.open().create_vm, **arguments) for _ in range(4)]
    cids = {created.cid for created in together(calls)}
    for cid in cids:
        lab.undo(lab.cpi.delete_vm, cid)
    assert len(cids) == 1
    assert {cid for kind, cid in lab.inventory() if kind == "vm"} - before == cids


@proves("create_vm", "find")
def test_a_vm_whose_answer_was_lost_is_found_by_its_mark(lab: Lab) -> None:
    lab.needs("find")
    arguments = lab.vm_arguments()
    lab.faults.lose_answer("create_vm")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_vm(**arguments))
    found = wait_for(lambda: lab.cpi.find("vm", arguments["mark"]), lab.capabilities.settle_s)
    assert found is not None
    lab.undo(lab.cpi.delete_vm, found.cid)
    assert lab.cpi.create_vm(**arguments).cid == found.cid


@proves("create_vm", "find", "capabilities")
def test_a_vm_that_shows_up_late_is_found_within_the_declared_time(lab: Lab) -> None:
    lab.needs("find")
    arguments = lab.vm_arguments()
    lab.faults.late("create_vm")
    lab.faults.lose_answer("create_vm")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_vm(**arguments))
    found = wait_for(lambda: lab.cpi.find("vm", arguments["mark"]), lab.capabilities.settle_s)
    assert found is not None
    lab.undo(lab.cpi.delete_vm, found.cid)


@proves("create_vm", "capabilities")
def test_a_vm_with_a_token_is_had_by_the_repeat_though_no_list_shows_it(lab: Lab) -> None:
    """What `client_tokens` promises; drivers that do not declare it have their settle time instead."""
    lab.needs("find")
    if "vm" not in lab.capabilities.client_tokens:
        return
    arguments = lab.vm_arguments()
    before = {cid for kind, cid in lab.inventory() if kind == "vm"}
    lab.faults.late("create_vm")
    lab.faults.lose_answer("create_vm")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_vm(**arguments))
    repeated = lab.cpi.create_vm(**arguments)
    lab.undo(lab.cpi.delete_vm, repeated.cid)
    found = wait_for(lambda: lab.cpi.find("vm", arguments["mark"]), lab.capabilities.settle_s)
    assert found is not None and found.cid == repeated.cid
    assert {cid for kind, cid in lab.inventory() if kind == "vm"} - before == {repeated.cid}


@proves("has_vm", "create_disk")
def test_a_session_that_ended_is_opened_again(lab: Lab) -> None:
    vm = lab.vm()
    lab.expire()
    assert lab.cpi.has_vm(vm) is True
    lab.expire()
    lab.disk()


@proves("create_vm")
def test_a_failing_cloud_leaves_no_vm_and_the_repeat_works(lab: Lab) -> None:
    arguments = lab.vm_arguments()
    lab.faults.fail("create_vm")
    expect_error(CpiError, lambda: lab.cpi.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)


@proves("delete_vm")
def test_a_failing_cloud_keeps_the_vm_and_the_repeat_deletes_it(lab: Lab) -> None:
    cid = lab.vm()
    lab.faults.fail("delete_vm")
    expect_error(CpiError, lambda: lab.cpi.delete_vm(cid))
    assert lab.cpi.has_vm(cid) is True
    lab.cpi.delete_vm(cid)
    assert lab.cpi.has_vm(cid) is False


@proves("delete_vm")
def test_a_deletion_whose_answer_was_lost_can_be_repeated(lab: Lab) -> None:
    cid = lab.vm()
    lab.faults.lose_answer("delete_vm")
    expect_error(CpiError, lambda: lab.cpi.delete_vm(cid))
    allow_not_found(VMNotFound, lambda: lab.cpi.delete_vm(cid))
    assert lab.cpi.has_vm(cid) is False


@proves("create_disk")
def test_throttling_is_called_by_its_name_and_may_be_repeated(lab: Lab) -> None:
    lab.needs("find")
    lab.faults.throttle("create_disk")
    error = expect_error(Throttled, lambda: lab.cpi.create_disk(1024, {}, mark=lab.mark()))
    assert error.retryable
    lab.disk()
