"""Accidents: the cloud or its driver answers badly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coterie.cleanup import start
from coterie.cleanup.survey import NO_DIRECTOR
from coterie.cpi.contract import CpiError, SurveyPage
from tests.cleanup.accidents.ground import Bend, Ground, until
from tests.cleanup.accidents.listing import accident

NOTHING = "The survey of that kind stops with the reason; nothing of it is deleted."


@accident(36, "The cloud refuses to list a kind (403)", NOTHING, cloud=False)
def refused_list(g: Ground) -> None:
    def refuse(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        if kind == "disk":
            raise CpiError("the cloud answered 403: forbidden", remedy="grant it")
        return survey(kind, director, cursor)

    assert "403" in stopped(g, refuse)


@accident(37, "A list breaks off half-way", f"{NOTHING} Not even of the part that was read.", cloud=False)
def broken_list(g: Ground) -> None:
    def break_off(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        if kind != "disk" or director == NO_DIRECTOR:
            return survey(kind, director, cursor)
        if cursor is not None:
            raise CpiError("the cloud answered 500")
        return replace(survey(kind, director, cursor), next="2")

    assert "broke off" in stopped(g, break_off)


@accident(38, "A list is incomplete, and says so", NOTHING, cloud=False)
def incomplete_list(g: Ground) -> None:
    def cut(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        return replace(survey(kind, director, cursor), complete=kind != "disk")

    assert "incomplete" in stopped(g, cut)


@accident(39, "A list goes in circles", NOTHING, cloud=False)
def circular_list(g: Ground) -> None:
    def turn(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        if kind != "disk" or director == NO_DIRECTOR:
            return survey(kind, director, cursor)
        return replace(survey(kind, director, None), next="1")

    assert "circles" in stopped(g, turn)


@accident(40, "The cloud ignores the filter by owner", NOTHING, "filter", cloud=False)
def ignored_filter(g: Ground) -> None:
    def ignore(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        return survey(kind, g.director if kind == "disk" else director, cursor)

    assert "ignores the filter" in stopped(g, ignore)


@accident(41, "Marks cannot be read", "Nothing of that kind is deleted.", cloud=False)
def unreadable_marks(g: Ground) -> None:
    g.leave()

    def blind(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        page = survey(kind, director, cursor)
        return replace(page, objects=tuple(replace(one, mark=None, tags=None) for one in page.objects))

    with g.bent_survey(blind):
        plan = g.yard.survey()
        assert [item for item in plan.items if item.action == "delete"] == []
        marking = g.site.cpi().capabilities().kinds
        assert {one.kind for one in plan.stopped} >= {kind for kind in g.ours if marking[kind] == "atomic"}
    assert g.left() == g.ours


@accident(
    42, "A list of VMs lacks some without a word", "They are looked up one by one; none counts as missing.", cloud=False
)
def silent_gaps(g: Ground) -> None:
    g.deploy()

    def omit(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        page = survey(kind, director, cursor)
        return replace(page, objects=()) if kind == "vm" else page

    with g.bent_survey(omit):
        plan = g.clean()
    assert (plan.items, [row for row in plan.rest if row.verdict == "missing"]) == ((), [])
    assert g.left() == g.ours


@accident(43, "The cloud's clock differs from ours", "It makes nothing old enough.", cloud=False)
def differing_clock(g: Ground) -> None:
    """Grace is counted by our own clock; `--older-than` leaves out what was made in the future."""
    g.leave()
    with g.bent_survey(_shift(-1.7e9)):
        assert g.survey(grace_s=3600).items == ()
    with g.bent_survey(_shift(1e10)):
        plan = g.survey(older_than_s=3600)
    assert plan.items == ()
    assert "made in the future" in str(g.reason(plan, g.cid("vm")))


def _shift(seconds: float) -> Bend:
    def shift(cpi: Any, kind: str, director: str, cursor: str | None, survey: Any) -> SurveyPage:
        page = survey(kind, director, cursor)
        moved = [replace(one, created_at=(one.created_at or 0) + seconds) for one in page.objects]
        return replace(page, objects=tuple(moved))

    return shift


@accident(44, "The cloud throttles deletes", "They are repeated; none is dropped.")
def throttled(g: Ground) -> None:
    g.leave(g.text(2))
    g.faults.throttle("delete_vm")
    plan = g.clean()
    assert g.left() == {}
    assert "failed" not in g.yard.outcomes(plan).values()


@accident(45, "A delete fails", "The others go on; the next cleanup takes what is left.")
def failed_delete(g: Ground) -> None:
    g.leave(g.text(2))
    g.faults.fail("delete_vm")
    plan = g.survey(kinds=["vm"])
    task = start.apply(g.ledger, plan.cleanup, plan.id, "test")
    until(lambda: g.site.task(task).state != "running")
    assert len(g.left().get("vm", [])) <= 1
    g.clean()
    assert g.left() == {}


@accident(46, "The answer to a delete is lost", "The object is looked up again; the row ends as the object did.")
def lost_answer(g: Ground) -> None:
    g.leave()
    g.faults.lose_answer("delete_vm")
    g.clean()
    g.clean()
    assert g.left() == {}
    assert g.site.objects("vm").get("deleting") is None


def stopped(g: Ground, how: Bend) -> str:
    """Why the survey of disks stopped; all disks are still there, and all else is gone."""
    g.leave()
    disk = g.cid("disk")
    with g.bent_survey(how):
        plan = g.yard.survey()
        with g.protected():
            g.yard.apply(plan)
    assert g.left() == {"disk": [disk]}
    (found,) = [one.reason for one in plan.stopped]
    return str(found)
