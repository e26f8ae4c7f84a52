"""delete_object: what is still what it was is deleted, with positive proof; everything else is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.parts.finding import kinds, make_object
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import Changed, CloudObject, CpiError, Expected


@proves("delete_object")
def test_what_is_as_expected_is_deleted_and_only_that(lab: Lab) -> None:
    lab.needs("delete_object")
    other = lab.disk()
    for kind in kinds(lab):
        if kind in ("network", "server_group"):
            continue
        found = make_object(lab, kind)
        expected = Expected(found.mark, found.created_at, found.etag)
        lab.cpi.delete_object(kind, found.cid, expected)
        assert found.mark is not None
        assert lab.cpi.find(kind, found.mark) is None, kind
        lab.cpi.delete_object(kind, found.cid, expected)
    assert lab.cpi.has_disk(other) is True


@proves("delete_object")
def test_what_differs_from_the_expected_is_kept(lab: Lab) -> None:
    lab.needs("delete_object")
    for kind in kinds(lab):
        if kind == "network":
            continue
        found = make_object(lab, kind)
        for expected in _lies(lab, found):
            expect_error(Changed, partial(lab.cpi.delete_object, kind, found.cid, expected))
        assert found.mark is not None
        assert lab.cpi.find(kind, found.mark) == found


@proves("delete_object")
def test_an_empty_group_is_deleted_as_an_object(lab: Lab) -> None:
    lab.needs("delete_object", "create_server_group")
    mark = lab.mark()
    lab.group(mark=mark)
    found = lab.cpi.find("server_group", mark)
    if found is None:
        assert lab.cpi.inspect_server_group(mark.group_cid).state == "reserved"
        return
    lab.cpi.delete_object("server_group", found.cid, Expected(mark, found.created_at, found.etag))
    assert lab.cpi.find("server_group", mark) is None


@proves("delete_object")
def test_networks_are_listed_and_never_deleted_as_objects(lab: Lab) -> None:
    lab.needs("delete_object", "create_network")
    found = make_object(lab, "network")
    expect_error(CpiError, lambda: lab.cpi.delete_object("network", found.cid, Expected(found.mark, found.created_at)))
    assert found.mark is not None
    assert lab.cpi.find("network", found.mark) is not None


@proves("delete_object")
def test_an_operators_vm_is_kept_whatever_is_expected(lab: Lab) -> None:
    lab.needs("delete_object")
    theirs = lab.operator.create_vm("pet", lab.az)
    lab.undo(lab.operator.delete, "vm", theirs)
    expect_error(Changed, lambda: lab.cpi.delete_object("vm", theirs, Expected(lab.mark())))
    assert lab.operator.exists("vm", theirs)


def _lies(lab: Lab, found: CloudObject) -> list[Expected]:
    truth = Expected(found.mark, found.created_at, found.etag)
    lies = [replace(truth, mark=lab.mark()), replace(truth, mark=None)]
    if found.created_at is not None:
        lies.append(replace(truth, created_at=found.created_at - 1))
    if found.etag is not None:
        lies.append(replace(truth, etag=f"{found.etag}0"))
    return lies
