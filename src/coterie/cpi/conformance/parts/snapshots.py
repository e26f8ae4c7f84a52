"""Snapshots of disks: made and deleted, each under its own mark."""

from __future__ import annotations

from coterie.cpi.conformance.expect import allow_not_found, expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import DiskNotFound, Mark

METADATA = {"deployment": "kit", "job": "broker", "index": 0, "director_name": "d", "agent_id": "a"}


def make(lab: Lab, disk: str, mark: Mark | None = None) -> str:
    cid = lab.cpi.snapshot_disk(disk, METADATA, mark=mark or lab.mark())
    lab.undo(lab.cpi.delete_snapshot, cid)
    return cid


@proves("snapshot_disk", "delete_snapshot")
def test_a_snapshot_is_made_and_deleted(lab: Lab) -> None:
    lab.needs("snapshot_disk", "delete_snapshot")
    disk = lab.make_written_disk()
    before = lab.inventory()
    cid = make(lab, disk)
    assert lab.inventory() != before
    lab.cpi.delete_snapshot(cid)
    assert lab.inventory() == before
    assert lab.cpi.has_disk(disk) is True


@proves("delete_snapshot")
def test_a_snapshot_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    lab.needs("snapshot_disk", "delete_snapshot")
    cid = make(lab, lab.make_written_disk())
    lab.cpi.delete_snapshot(cid)
    allow_not_found(DiskNotFound, lambda: lab.cpi.delete_snapshot(cid))
    allow_not_found(DiskNotFound, lambda: lab.cpi.delete_snapshot("no-such-snapshot"))


@proves("snapshot_disk")
def test_a_disk_that_is_not_there_has_no_snapshot(lab: Lab) -> None:
    lab.needs("snapshot_disk")
    expect_error(DiskNotFound, lambda: lab.cpi.snapshot_disk("no-such-disk", METADATA, mark=lab.mark()))


@proves("snapshot_disk")
def test_a_disk_has_several_snapshots_and_one_per_mark(lab: Lab) -> None:
    lab.needs("snapshot_disk", "find")
    disk, mark = lab.make_written_disk(), lab.mark()
    first = make(lab, disk, mark)
    assert make(lab, disk, mark) == first
    assert make(lab, disk) != first
