"""Repeats under a mark whose first call made something: no error may say that nothing is there."""

from __future__ import annotations

from typing import Any

import pytest
from peers.aws_bed import AwsBed
from tests.cpi.drivers.aws.test_aws_complaints import answering, refusing

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, OutcomeUnknown, StemcellNotFound
from coterie.sandbox.fronts.aws import rows
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.refusals import ApiError


def test_an_instance_that_was_stopped_meanwhile_is_not_called_absent(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = lab.vm_arguments()
    vm = lab.cpi.create_vm(**arguments).cid
    monkeypatch.setitem(rows._STATES, "running", (80, "stopped"))
    with pytest.raises(OutcomeUnknown, match="earlier call"):
        bed.open().create_vm(**arguments)
    monkeypatch.undo()
    lab.cpi.delete_vm(vm)


def test_an_instance_whose_image_went_meanwhile_is_not_called_absent(bed: AwsBed, lab: Lab) -> None:
    arguments, no_images = lab.vm_arguments(), {"Images": list[Any]()}
    with answering("DescribeImages", lambda front, given: no_images), pytest.raises(StemcellNotFound):
        bed.open().create_vm(**arguments)
    vm = lab.cpi.create_vm(**arguments).cid
    with answering("DescribeImages", lambda front, given: no_images), pytest.raises(OutcomeUnknown) as caught:
        bed.open().create_vm(**arguments)
    assert "not in this region" in caught.value.why and not caught.value.retryable
    lab.cpi.delete_vm(vm)


def test_a_volume_whose_request_changed_meanwhile_is_found_by_its_mark(bed: AwsBed, lab: Lab) -> None:
    mark = lab.mark()
    disk = lab.cpi.create_disk(1024, {}, mark=mark)
    bed.more = {"encrypted": True}
    before = bed.inventory()
    assert bed.open().create_disk(1024, {}, mark=mark) == disk
    assert bed.inventory() == before
    lab.cpi.delete_disk(disk)


def test_a_volume_whose_zone_went_from_the_properties_is_not_called_absent(bed: AwsBed, lab: Lab) -> None:
    mark = lab.mark()
    disk = lab.cpi.create_disk(1024, {}, mark=mark)
    bed.more = {"default_availability_zone": None}
    with pytest.raises(OutcomeUnknown, match="earlier call"):
        bed.open().create_disk(1024, {}, mark=mark)
    lab.cpi.delete_disk(disk)


def test_a_snapshot_whose_request_changed_meanwhile_is_not_called_absent(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upload was begun, and StartSnapshot refuses the repeat."""
    (path, properties), mark, start = bed.image(), lab.mark(), Front.start_snapshot

    def conflict(front: Front, given: Any) -> Any:
        start(front, given)
        raise ApiError("ConflictException", "the token was used with another request")

    monkeypatch.setattr(Front, "start_snapshot", conflict)
    with pytest.raises(OutcomeUnknown, match="earlier call"):
        lab.cpi.create_stemcell(path, properties, mark=mark)
    monkeypatch.undo()
    lab.cpi.delete_stemcell(lab.cpi.create_stemcell(path, properties, mark=mark))


def test_a_new_volume_that_aws_is_too_busy_to_show_stays(bed: AwsBed, lab: Lab) -> None:
    bed.more, mark = {"retries": 0}, lab.mark()
    cpi = bed.open()
    refuse = refusing(1, "RequestLimitExceeded", "too much")
    with answering("DescribeVolumes", refuse) as asked, pytest.raises(OutcomeUnknown):
        cpi.create_disk(1024, {}, mark=mark)
    assert asked["CreateVolume"] == 1 and "DeleteVolume" not in asked
    cpi.delete_disk(cpi.create_disk(1024, {}, mark=mark))


@pytest.mark.parametrize("state", ["deleting", None])
def test_a_mark_whose_volume_was_deleted_is_spent(bed: AwsBed, lab: Lab, state: str | None) -> None:
    bed.more, mark = {"settle_s": 0.2, "state_timeout": 3}, lab.mark()
    cpi = bed.open()
    disk = cpi.create_disk(1024, {}, mark=mark)
    going = [{"VolumeId": disk, "State": state}] if state else []
    with (
        answering("CreateVolume", lambda front, given: {"VolumeId": disk}),
        answering("DescribeVolumes", lambda front, given: {"Volumes": going}),
        pytest.raises(CpiError, match="was deleted") as caught,
    ):
        bed.open().create_disk(1024, {}, mark=mark)
    assert caught.value.retryable and not isinstance(caught.value, OutcomeUnknown)
    cpi.delete_disk(disk)


def test_a_new_image_that_aws_is_too_busy_to_show_stays(bed: AwsBed, lab: Lab) -> None:
    bed.more, mark = {"retries": 0}, lab.mark()
    cpi, copied = bed.open(), {"ami": {"us-east-1": "ami-0a"}}
    refuse = refusing(1, "RequestLimitExceeded", "too much")
    with answering("DescribeImages", refuse) as asked, pytest.raises(OutcomeUnknown):
        cpi.create_stemcell("", copied, mark=mark)
    assert asked["CopyImage"] == 1 and "DeregisterImage" not in asked
    cpi.delete_stemcell(cpi.create_stemcell("", copied, mark=mark))


def test_a_mark_whose_image_was_deleted_is_spent(bed: AwsBed, lab: Lab) -> None:
    bed.more, mark = {"settle_s": 0.2, "state_timeout": 3}, lab.mark()
    cpi, copied = bed.open(), {"ami": {"us-east-1": "ami-0a"}}
    cpi.delete_stemcell(cpi.create_stemcell("", copied, mark=mark))
    with pytest.raises(CpiError, match="was deleted") as caught:
        bed.open().create_stemcell("", copied, mark=mark)
    assert caught.value.retryable and not isinstance(caught.value, OutcomeUnknown)
