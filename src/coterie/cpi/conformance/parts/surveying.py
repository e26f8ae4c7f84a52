"""survey: everything of a kind that may be ours, page by page, its marks readable, its calls counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import DISK_MB, Lab
from coterie.cpi.conformance.parts.finding import MAKERS, kinds, make_object
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import (
    KINDS,
    Changed,
    CloudObject,
    Cpi,
    CpiError,
    Expected,
    Kind,
    Mark,
    SurveyPage,
    opt_out_reason,
)


def pages(lab: Lab, kind: Kind, director_uuid: str | None = None) -> list[SurveyPage]:
    found = [lab.cpi.survey(kind, director_uuid or lab.bed.director_uuid)]
    while found[-1].next is not None:
        found.append(lab.cpi.survey(kind, director_uuid or lab.bed.director_uuid, found[-1].next))
    return found


def survey_all(cpi: Cpi, kind: Kind, director_uuid: str) -> list[CloudObject]:
    page = cpi.survey(kind, director_uuid)
    found = [*page.objects]
    while page.next is not None:
        page = cpi.survey(kind, director_uuid, page.next)
        found += page.objects
    return found


def list_objects(lab: Lab, kind: Kind, director_uuid: str | None = None) -> list[CloudObject]:
    return [one for page in pages(lab, kind, director_uuid) for one in page.objects]


@proves("survey")
def test_every_kind_can_be_listed_completely(lab: Lab) -> None:
    lab.needs("survey")
    for kind in KINDS:
        for page in pages(lab, kind):
            assert page.complete is True
            assert page.calls >= (1 if kind in lab.capabilities.kinds else 0)
            assert all(one.kind == kind for one in page.objects)


@proves("survey")
def test_marks_are_readable_in_lists(lab: Lab) -> None:
    lab.needs("survey")
    for kind in kinds(lab):
        mark = lab.mark()
        MAKERS[kind](lab, mark)
        assert [one.mark for one in list_objects(lab, kind) if one.mark == mark] == [mark], kind


@proves("survey")
def test_a_list_and_find_tell_the_same(lab: Lab) -> None:
    lab.needs("survey", "find")
    mark = lab.mark()
    lab.vm(mark=mark)
    assert [one for one in list_objects(lab, "vm") if one.mark == mark] == [lab.cpi.find("vm", mark)]


@proves("survey")
def test_what_uses_an_object_is_told_or_unknown(lab: Lab) -> None:
    lab.needs("survey")
    vm, mark = lab.vm(), lab.mark()
    disk = lab.disk(mark=mark)
    lab.cpi.attach_disk(vm, disk)
    lab.undo(lab.cpi.detach_disk, vm, disk)
    (found,) = [one for one in list_objects(lab, "disk") if one.mark == mark]
    assert found.in_use_by is None or found.in_use_by == (vm,)


@proves("survey")
def test_pages_cover_everything_once_and_cost_few_calls(lab: Lab) -> None:
    lab.needs("survey")
    unwatched, properties = lab.bed.open(), lab.bed.disk_properties(lab.az)
    wanted = {unwatched.create_disk(DISK_MB, properties, mark=lab.mark()) for _ in range(lab.page_size + 1)}
    for disk in wanted:
        lab.undo(unwatched.delete_disk, disk)
    found = pages(lab, "disk")
    cids = [one.cid for page in found for one in page.objects]
    assert len(found) > 1
    assert len(cids) == len(set(cids))
    assert wanted <= set(cids)
    assert sum(page.calls for page in found) <= 2 * len(found)


@proves("survey")
def test_an_operators_objects_are_not_claimed(lab: Lab) -> None:
    lab.needs("survey")
    theirs = lab.operator.create_vm("cot-looks-like-ours", lab.az)
    lab.undo(lab.operator.delete, "vm", theirs)
    assert all(one.mark is None for one in list_objects(lab, "vm") if one.cid == theirs)


@proves("survey")
def test_a_cloud_full_of_strangers_objects_without_tags_is_listed_completely(lab: Lab) -> None:
    """One object that cannot be read would stop the survey of its kind for ever."""
    lab.needs("survey")
    for kind in KINDS:
        theirs = lab.operator.create(kind, lab.az)
        if theirs is not None:
            lab.undo(lab.operator.delete, kind, theirs)
    for kind in KINDS:
        for page in pages(lab, kind):
            assert page.complete is True, kind
            assert [one for one in page.objects if not one.is_readable] == [], kind


@proves("survey", "find")
def test_an_image_that_others_may_use_is_in_use(lab: Lab) -> None:
    lab.needs("survey", "find")
    found = make_object(lab, "image")
    assert found.mark
    assert found.in_use_by in ((), None)
    if lab.operator.share(found.cid):
        shared = lab.cpi.find("image", found.mark)
        assert shared and shared.in_use_by
        assert [bool(one.in_use_by) for one in list_objects(lab, "image") if one.mark == found.mark] == [True]


@proves("survey", "find", "delete_object")
def test_people_keep_an_object_of_any_kind(lab: Lab) -> None:
    """By a word on it, or in the configuration of the cloud where nothing can be written on it."""
    lab.needs("survey", "find", "delete_object")
    for kind in kinds(lab):
        found = make_object(lab, kind)
        assert found.mark
        assert opt_out_reason(found.tags, 0.0) is None, kind
        cpi = lab.cpi if lab.operator.keep(kind, found.cid) else lab.bed.open_keeping(found.cid)
        kept = cpi.find(kind, found.mark)
        assert kept and opt_out_reason(kept.tags, 0.0), kind
        listed = [one for one in survey_all(cpi, kind, lab.bed.director_uuid) if one.mark == found.mark]
        assert [bool(opt_out_reason(one.tags, 0.0)) for one in listed] == [True], kind
        expected = Expected(kept.mark, kept.created_at, kept.etag)
        expect_error(CpiError if kind == "network" else Changed, partial(cpi.delete_object, kind, kept.cid, expected))
        assert lab.cpi.find(kind, found.mark), kind


@proves("survey", "find")
def test_another_directors_objects_are_not_claimed(lab: Lab) -> None:
    lab.needs("survey")
    uuid = lab.ids.uuid()
    other, mark = lab.bed.open(uuid), Mark(uuid, lab.ids.intent())
    theirs = other.create_disk(1024, lab.bed.disk_properties(lab.az), mark=mark)
    lab.undo(other.delete_disk, theirs)
    assert all(one.mark == mark for one in list_objects(lab, "disk") if one.cid == theirs)
    assert lab.cpi.find("disk", replace(mark, director=lab.bed.director_uuid)) is None
    assert theirs in [one.cid for one in list_objects(lab, "disk", uuid)]


@proves("survey")
def test_a_filter_of_the_cloud_is_honoured(lab: Lab) -> None:
    """A Director that does not exist has nothing; a cloud that ignores the filter would list ours."""
    lab.needs("survey")
    lab.disk()
    for kind in sorted(lab.capabilities.filtered & set(KINDS)):
        assert list_objects(lab, kind, lab.ids.uuid()) == []  # type: ignore[arg-type] # sorted() forgets the literal
