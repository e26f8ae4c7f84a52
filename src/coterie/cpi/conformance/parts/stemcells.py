"""Images: made of a local file, found by mark, gone for good."""

from __future__ import annotations

from functools import partial

from coterie.cpi.conformance.expect import ODD_CIDS, allow_not_found, expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError, Mark, StemcellNotFound


def make(lab: Lab, mark: Mark | None = None) -> str:
    path, properties = lab.bed.image()
    cid = lab.cpi.create_stemcell(path, properties, {"tags": {"os": "kit"}}, mark=mark or lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    return cid


@proves("create_stemcell", "delete_stemcell")
def test_an_image_is_made_and_deleted(lab: Lab) -> None:
    before = lab.inventory()
    cid = make(lab)
    assert cid
    assert lab.inventory() != before
    lab.cpi.delete_stemcell(cid)
    assert lab.inventory() == before


@proves("delete_stemcell")
def test_an_image_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    cid = make(lab)
    lab.cpi.delete_stemcell(cid)
    allow_not_found(StemcellNotFound, lambda: lab.cpi.delete_stemcell(cid))


@proves("delete_stemcell")
def test_an_unknown_image_counts_as_deleted(lab: Lab) -> None:
    for cid in ODD_CIDS[:3]:
        allow_not_found(StemcellNotFound, partial(lab.cpi.delete_stemcell, cid))


@proves("create_stemcell")
def test_a_file_that_is_not_there_makes_no_image(lab: Lab) -> None:
    path, properties = lab.bed.image()
    expect_error(CpiError, lambda: lab.cpi.create_stemcell(f"{path}.missing", properties, mark=lab.mark()))


@proves("create_stemcell")
def test_the_same_mark_makes_one_image(lab: Lab) -> None:
    lab.needs("find")
    mark = lab.mark()
    first = make(lab, mark)
    before = lab.inventory()
    assert make(lab, mark) == first
    assert lab.inventory() == before


@proves("create_stemcell")
def test_the_same_mark_at_the_same_time_makes_one_image(lab: Lab) -> None:
    lab.needs("find")
    (path, properties), mark = lab.bed.image(), lab.mark()
    before = lab.inventory()
    calls = [partial(lab.bed.open().create_stemcell, path, properties, mark=mark) for _ in range(4)]
    cids = set(together(calls))
    for cid in cids:
        lab.undo(lab.cpi.delete_stemcell, cid)
    assert len(cids) == 1
    assert len(lab.inventory() - before) == 1
