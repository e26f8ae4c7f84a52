"""find: by the exact mark, or not at all; and vm_owner: whose mark a VM carries, for any Director."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from coterie.cpi.conformance.expect import ODD_CIDS, expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.parts import networks, snapshots, stemcells
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CloudObject, Kind, Mark, VMNotFound
from coterie.ids import director_prefix

# How one object of a kind is made under a mark.
MAKERS: dict[Kind, Callable[[Lab, Mark], object]] = {
    "vm": lambda lab, mark: lab.vm(mark=mark),
    "disk": lambda lab, mark: lab.disk(mark=mark),
    "image": lambda lab, mark: stemcells.make(lab, mark),
    "snapshot": lambda lab, mark: snapshots.make(lab, lab.make_written_disk(), mark),
    "network": lambda lab, mark: networks.make(lab, mark).cid,
    "server_group": lambda lab, mark: lab.vm(group=lab.group(mark=mark)),
}


def make_object(lab: Lab, kind: Kind) -> CloudObject:
    """A fresh object of this kind, as `find` shows it."""
    mark = lab.mark()
    MAKERS[kind](lab, mark)
    found = lab.cpi.find(kind, mark)
    assert found is not None, f"the {kind} that was just made is not found by its mark"
    return found


def kinds(lab: Lab) -> list[Kind]:
    """The kinds that the driver declares to create and to mark."""
    return [kind for kind in MAKERS if lab.capabilities.kinds.get(kind, "none") != "none"]


@proves("find")
def test_every_kind_is_found_by_its_mark(lab: Lab) -> None:
    lab.needs("find")
    for kind in kinds(lab):
        mark = lab.mark()
        cid = MAKERS[kind](lab, mark)
        found = lab.cpi.find(kind, mark)
        assert found is not None, kind
        assert (found.kind, found.mark) == (kind, mark)
        assert found.cid
        assert kind == "server_group" or found.cid == cid
        assert CloudObject.of_wire(found.wire()) == found


@proves("find")
def test_a_mark_that_nothing_has_finds_nothing(lab: Lab) -> None:
    lab.needs("find")
    for kind in kinds(lab):
        assert lab.cpi.find(kind, lab.mark()) is None


@proves("find")
def test_the_same_intent_of_another_director_is_not_ours(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    lab.disk(mark=mark)
    assert lab.cpi.find("disk", replace(mark, director=lab.ids.uuid())) is None


@proves("find")
def test_what_was_deleted_is_not_found(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    lab.cpi.delete_disk(lab.disk(mark=mark))
    assert lab.cpi.find("disk", mark) is None


@proves("vm_owner")
def test_a_vm_tells_whose_mark_it_carries(lab: Lab) -> None:
    lab.needs("vm_owner")
    vm, ours = lab.vm(), lab.bed.director_uuid
    assert lab.cpi.vm_owner(vm) == ours
    told = lab.bed.open(lab.ids.uuid()).vm_owner(vm)
    assert told in (ours, director_prefix(ours)), "another Director must see that it has an owner"


@proves("vm_owner")
def test_a_vm_without_a_mark_has_no_owner(lab: Lab) -> None:
    lab.needs("vm_owner")
    vm = lab.operator.create_vm("neighbour", lab.az)
    lab.undo(lab.operator.delete, "vm", vm)
    assert lab.cpi.vm_owner(vm) is None


@proves("vm_owner")
def test_the_owner_of_a_missing_vm_is_an_error(lab: Lab) -> None:
    lab.needs("vm_owner")
    for cid in ODD_CIDS:
        expect_error(VMNotFound, partial(lab.cpi.vm_owner, cid))
