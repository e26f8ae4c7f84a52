"""VMs: made, seen, rebooted, described, deleted; and every wrong id gets its typed answer."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import ODD_CIDS, allow_not_found, expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError, Kind, VMCreationFailed, VMNotFound

_PARTS: tuple[Kind, ...] = ("port", "ip")


@proves("create_vm", "has_vm", "delete_vm")
def test_a_vm_is_made_seen_and_deleted(lab: Lab) -> None:
    lab.image()
    before = lab.inventory()
    cid = lab.vm()
    assert lab.cpi.has_vm(cid) is True
    lab.cpi.delete_vm(cid)
    assert lab.cpi.has_vm(cid) is False
    assert lab.inventory() == before


@proves("create_vm")
def test_a_vm_answers_its_networks(lab: Lab) -> None:
    arguments = lab.vm_arguments()
    created = lab.cpi.create_vm(**arguments)
    lab.undo(lab.cpi.delete_vm, created.cid)
    assert set(created.networks) >= set(arguments["networks"])


@proves("create_vm")
def test_vms_are_made_in_every_az(lab: Lab) -> None:
    cids = [lab.vm(az) for az in lab.bed.azs]
    assert len(set(cids)) == len(lab.bed.azs)
    assert all(lab.cpi.has_vm(cid) for cid in cids)


@proves("delete_vm")
def test_what_only_bears_a_copy_of_a_vms_mark_stays(lab: Lab) -> None:
    """Ports and addresses that people made go with no VM of ours."""
    lab.needs("find")
    mark = lab.mark()
    vm = lab.vm(mark=mark)
    parts = {kind: lab.cpi.find(kind, mark) for kind in _PARTS if kind in lab.capabilities.kinds}
    copies = {kind: lab.operator.copy(kind, found.cid) for kind, found in parts.items() if found}
    for kind, copy in copies.items():
        assert copy
        lab.undo(lab.operator.delete, kind, copy)
    lab.cpi.delete_vm(vm)
    assert [kind for kind, copy in copies.items() if copy and not lab.operator.exists(kind, copy)] == []


@proves("delete_vm")
def test_a_vm_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    cid = lab.vm()
    lab.cpi.delete_vm(cid)
    allow_not_found(VMNotFound, lambda: lab.cpi.delete_vm(cid))


@proves("has_vm", "delete_vm", "reboot_vm", "set_vm_metadata", "get_disks")
def test_ids_that_no_vm_has_get_typed_answers(lab: Lab) -> None:
    for cid in ODD_CIDS:
        assert lab.cpi.has_vm(cid) is False
        allow_not_found(VMNotFound, partial(lab.cpi.delete_vm, cid))
        expect_error(VMNotFound, partial(lab.cpi.reboot_vm, cid))
        expect_error(VMNotFound, partial(lab.cpi.set_vm_metadata, cid, {"a": "b"}))
        expect_error(VMNotFound, partial(lab.cpi.get_disks, cid))


@proves("reboot_vm")
def test_a_vm_survives_its_reboot(lab: Lab) -> None:
    cid = lab.vm()
    lab.cpi.reboot_vm(cid)
    assert lab.cpi.has_vm(cid) is True


@proves("set_vm_metadata")
def test_metadata_is_taken_and_can_be_changed(lab: Lab) -> None:
    cid = lab.vm()
    lab.cpi.set_vm_metadata(cid, {"director": "d", "deployment": "kit", "job": "broker", "index": "0"})
    lab.cpi.set_vm_metadata(cid, {"deployment": "kit-2", "name": "broker/0", "created_at": "2026-11-15T00:00:00Z"})
    assert lab.cpi.has_vm(cid)


@proves("set_vm_metadata")
def test_metadata_is_readable_and_leaves_the_mark_alone(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    cid = lab.vm(mark=mark)
    lab.cpi.set_vm_metadata(cid, {"deployment": "kit", "director": "somebody else", "intent": "none"})
    found = lab.cpi.find("vm", mark)
    assert found is not None
    assert (found.cid, found.mark) == (cid, mark)
    if found.tags is not None:
        assert found.tags["deployment"] == "kit"


@proves("create_vm")
def test_an_image_that_is_not_there_makes_no_vm(lab: Lab) -> None:
    expect_error(CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(stemcell_cid="no-such-image")))


@proves("create_vm")
def test_a_property_that_the_driver_does_not_know_is_named(lab: Lab) -> None:
    properties = {**lab.bed.vm_properties(lab.az), "no_such_property": 1}
    error = expect_error(CpiError, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=properties)))
    assert "no_such_property" in str(error)


@proves("create_vm")
def test_a_vm_that_fits_nowhere_says_why(lab: Lab) -> None:
    properties = lab.bed.huge_vm_properties(lab.az)
    error = expect_error(VMCreationFailed, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=properties)))
    assert error.why or len(error.what.split()) > 2
