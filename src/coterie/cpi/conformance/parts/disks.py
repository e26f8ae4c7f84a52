"""Persistent disks: made, grown, described, deleted; never shrunk."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import ODD_CIDS, allow_not_found, expect_error, together, wait_for
from coterie.cpi.conformance.lab import DISK_MB, Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError, DiskNotFound, NotSupported, OutcomeUnknown


@proves("create_disk", "has_disk", "delete_disk")
def test_a_disk_is_made_seen_and_deleted(lab: Lab) -> None:
    before = lab.inventory()
    cid = lab.disk()
    assert lab.cpi.has_disk(cid) is True
    lab.cpi.delete_disk(cid)
    assert lab.cpi.has_disk(cid) is False
    assert lab.inventory() == before


@proves("delete_disk")
def test_a_disk_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    cid = lab.disk()
    lab.cpi.delete_disk(cid)
    allow_not_found(DiskNotFound, lambda: lab.cpi.delete_disk(cid))


@proves("has_disk", "delete_disk")
def test_ids_that_no_disk_has_get_typed_answers(lab: Lab) -> None:
    for cid in ODD_CIDS:
        assert lab.cpi.has_disk(cid) is False
        allow_not_found(DiskNotFound, partial(lab.cpi.delete_disk, cid))


@proves("create_disk")
def test_a_disk_without_a_size_is_refused(lab: Lab) -> None:
    for size in (0, -1):
        expect_error(CpiError, partial(lab.cpi.create_disk, size, {}, mark=lab.mark()))


@proves("create_disk")
def test_a_disk_can_be_made_near_a_vm(lab: Lab) -> None:
    vm = lab.vm()
    disk = lab.disk(vm_cid=vm)
    assert lab.cpi.attach_disk(vm, disk)
    lab.undo(lab.cpi.detach_disk, vm, disk)


@proves("create_disk")
def test_the_same_mark_makes_one_disk(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    first = lab.disk(mark=mark)
    assert lab.disk(mark=mark) == first
    calls = [partial(lab.bed.open().create_disk, DISK_MB, {}, mark=mark) for _ in range(4)]
    assert set(together(calls)) == {first}


@proves("create_disk", "find")
def test_a_disk_whose_answer_was_lost_is_found_by_its_mark(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    lab.faults.lose_answer("create_disk")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_disk(DISK_MB, {}, mark=mark))
    found = wait_for(lambda: lab.cpi.find("disk", mark), lab.capabilities.settle_s)
    assert found is not None
    lab.undo(lab.cpi.delete_disk, found.cid)


@proves("set_disk_metadata")
def test_disk_metadata_is_taken(lab: Lab) -> None:
    lab.needs("set_disk_metadata")
    lab.cpi.set_disk_metadata(lab.disk(), {"deployment": "kit", "attached_at": "2026-11-15T00:00:00Z"})
    expect_error(DiskNotFound, lambda: lab.cpi.set_disk_metadata("no-such-disk", {"a": "b"}))


@proves("resize_disk")
def test_a_disk_grows_and_does_not_shrink(lab: Lab) -> None:
    lab.needs("resize_disk")
    cid = lab.disk()
    lab.cpi.resize_disk(cid, 2 * DISK_MB)
    lab.cpi.resize_disk(cid, 2 * DISK_MB)
    expect_error(NotSupported, lambda: lab.cpi.resize_disk(cid, DISK_MB))
    assert lab.cpi.has_disk(cid) is True
    expect_error(DiskNotFound, lambda: lab.cpi.resize_disk("no-such-disk", DISK_MB))


@proves("update_disk")
def test_a_disk_is_changed_in_place_or_replaced(lab: Lab) -> None:
    lab.needs("update_disk")
    first = lab.disk()
    cid = lab.cpi.update_disk(first, 2 * DISK_MB, lab.bed.disk_properties(lab.az)) or first
    lab.undo(lab.cpi.delete_disk, cid)
    assert lab.cpi.has_disk(cid) is True
    assert cid == first or lab.cpi.has_disk(first) is False
    expect_error(DiskNotFound, lambda: lab.cpi.update_disk("no-such-disk", DISK_MB, {}))
