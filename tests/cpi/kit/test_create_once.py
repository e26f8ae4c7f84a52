"""One thing under one mark: chosen ids, job ids, and the single writer."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn

import pytest

from coterie.cpi.contract import CpiError, GroupMissing, Json, Mark, OutcomeUnknown, QuotaExceeded, Unavailable, revive
from coterie.cpi.kit.create_once import (
    Created,
    Handler,
    Hold,
    SingleWriter,
    chosen_ids,
    create_if_absent,
    create_with_id,
    remove_half_made,
    start_with_job_id,
    wait_or_remove,
)

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
SPACE = uuid.UUID(int=1)
CHANGE: Json = {"kind": "disk", "mark": MARK.wire()}


class Refusal(Exception):
    pass


class Driver:
    """As much of a driver as a coordinator needs."""

    cloud = "north"

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.seen: list[tuple[str, Json]] = []
        self.answers: list[Json] = []
        self.ended = False
        self.writer = SingleWriter(self, "x", self, 60.0, Refusal, lambda error: QuotaExceeded(str(error), remedy="r"))  # type: ignore[arg-type] # all that is used

    def apply(self, domain: str, changes: list[Json]) -> list[Json]:
        return self.writer.apply({"disk": self.handler}, domain, changes)

    def submit(self, cpi: Any, domain: str, change: Json) -> Json:
        self.seen.append((domain, change))
        return self.answers.pop(0) if self.answers else self.apply(domain, [change])[0]

    def hold(self, domain: str) -> None:
        if self.ended:
            raise Unavailable(f"the lease to write {domain} has ended", remedy="repeat")


def create_x(change: Json, hold: Hold) -> Created:
    return Created("x", True)


def test_ids_follow_from_the_mark_and_the_purpose() -> None:
    assert list(chosen_ids(SPACE, MARK)) == list(chosen_ids(SPACE, MARK))
    assert len({*chosen_ids(SPACE, MARK), *chosen_ids(SPACE, MARK, "start")}) == 40


def test_an_id_whose_thing_is_gone_is_left_behind() -> None:
    first, second, *_ = ids = list(chosen_ids(SPACE, MARK))
    assert create_with_id(ids, lambda one: None if one == first else one, "the image") == second
    with pytest.raises(CpiError, match="the image came to nothing 20 times"):
        create_with_id(ids, lambda one: None, "the image")


def test_a_job_is_started_once_and_followed_by_the_others() -> None:
    first, second, *_ = ids = list(chosen_ids(SPACE, MARK))
    assert start_with_job_id(ids, lambda job: job, lambda job, error: None, Refusal, "it") == (first, True)

    def taken(job: str) -> str:
        if job in (first, second):
            raise Refusal
        return job

    gone = {first: None, second: "the other's"}
    assert start_with_job_id(ids, taken, lambda job, error: gone[job], Refusal, "it") == ("the other's", False)


def test_what_waited_too_long_has_to_come_again() -> None:
    old, new = ({**CHANGE, "lasts_s": 30.0, "waited_s": waited} for waited in (31.0, 29.0))
    assert Driver(create_x).apply("d", [old, new]) == [
        {"ok": False, "later": True},
        {"ok": True, "id": "x", "made": True},
    ]


def test_conductors_of_the_last_release_and_this_one_apply_each_others_changes() -> None:
    """A moment of the wall clock is all that 0.1.0 knows."""
    now = time.time()
    old, new = ({**CHANGE, "until": now + rest} for rest in (-1.0, 60.0))
    assert Driver(create_x).apply("d", [old, new]) == [
        {"ok": False, "later": True},
        {"ok": True, "id": "x", "made": True},
    ]
    driver = Driver(create_x)
    driver.writer.submit("disk", MARK.intent, CHANGE)
    ((_, change),) = driver.seen
    assert now + 20.0 < change["until"] < now + 90.0


def test_clocks_of_machines_that_differ_keep_no_change_from_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the wall clock is that of another machine, which is ahead of the last one."""
    looks = itertools.count(1_800_000_000.0, 40.0)
    monkeypatch.setattr(time, "time", lambda: next(looks))

    class Once(Driver):
        def submit(self, cpi: Any, domain: str, change: Json) -> Json:
            assert not self.seen, "the change came again, and would for ever"
            return super().submit(cpi, domain, change)

    assert Once(create_x).writer.submit("disk", MARK.intent, CHANGE) == Created("x", True)


def test_a_handler_of_all_changes_answers_for_each_of_those_in_time() -> None:
    old, new = ({**CHANGE, "lasts_s": 30.0, "waited_s": waited} for waited in (31.0, 29.0))
    seen: list[Json] = []

    def place(changes: Sequence[Json]) -> list[Created | CpiError]:
        seen.extend(changes)
        return [Created("x", True), GroupMissing("gone", remedy="make it")]

    driver = Driver(create_x)
    answers = driver.writer.apply_together(place, [new, old, new])
    assert seen == [new, new]
    assert answers[:2] == [{"ok": True, "id": "x", "made": True}, {"ok": False, "later": True}]
    assert isinstance(revive(answers[2]["error"]), GroupMissing)


def test_a_submitter_comes_again_until_it_is_served() -> None:
    driver = Driver(create_x)
    driver.answers = [{"ok": False, "later": True}]
    assert driver.writer.submit("disk", MARK.intent, CHANGE) == Created("x", True)
    first, second = driver.seen
    assert first[0] == second[0]
    assert first[0].startswith("x:north/disk/")
    assert first[1]["lasts_s"] == second[1]["lasts_s"] == 30.0


@pytest.mark.parametrize(
    ("error", "kind"), [(Refusal("no"), QuotaExceeded), (GroupMissing("gone", remedy="make it"), GroupMissing)]
)
def test_refusals_cross_the_writer(error: Exception, kind: type[Exception]) -> None:
    def refuse(change: Json, hold: Hold) -> Created:
        raise error

    driver = Driver(refuse)
    with pytest.raises(kind):
        driver.writer.submit("disk", MARK.intent, CHANGE)
    (outcome,) = driver.apply("d", [{**CHANGE, "lasts_s": 9.0}])
    assert type(revive(outcome["error"])) is kind


def test_what_is_there_is_not_created_again() -> None:
    assert create_if_absent(lambda: ["a", "b"], _never, _never, _never) == Created("a", False)


@pytest.mark.parametrize(("mine", "new", "removed"), [("a", True, []), ("b", False, ["b"])])
def test_of_two_the_oldest_counts_and_the_creator_of_the_other_removes_it(
    mine: str, new: bool, removed: list[str]
) -> None:
    looks = [[], ["a", "b"]]
    found: list[str] = []
    assert create_if_absent(lambda: looks.pop(0), lambda: mine, found.append, lambda: None) == Created("a", new)
    assert found == removed


def test_after_the_creation_a_look_that_fails_leaves_the_outcome_unknown() -> None:
    looks: list[list[str]] = [[]]

    def find() -> list[str]:
        return looks.pop() if looks else _raise(Unavailable("away", remedy="wait"))

    with pytest.raises(OutcomeUnknown, match="a was created"):
        create_if_absent(find, lambda: "a", _never, lambda: None)


@pytest.mark.parametrize(
    ("error", "leaves"),
    [
        (CpiError("refused"), Created("a", False)),
        (OutcomeUnknown("lost"), OutcomeUnknown),
        (ValueError("x"), ValueError),
    ],
)
def test_only_a_refusal_to_remove_the_second_is_passed_over(error: Exception, leaves: Any) -> None:
    looks = [[], ["a", "b"]]

    def create() -> Created:
        return create_if_absent(lambda: looks.pop(0), lambda: "b", lambda second: _raise(error), lambda: None)

    if isinstance(leaves, Created):
        assert create() == leaves
    else:
        with pytest.raises(leaves):
            create()


def test_nothing_is_created_after_the_lease_has_ended() -> None:
    """The looks took longer than the lease; the next writer creates the same."""
    driver = Driver(lambda change, hold: create_if_absent(list, _never, _never, hold))
    driver.ended = True
    (outcome,) = driver.apply("d", [{**CHANGE, "lasts_s": 9.0}])
    assert type(revive(outcome["error"])) is Unavailable


def test_what_is_not_ready_is_removed_or_its_outcome_stays_unknown() -> None:
    removed: list[int] = []

    def broken() -> None:
        raise QuotaExceeded("no", remedy="more")

    with pytest.raises(QuotaExceeded):
        wait_or_remove(broken, lambda: removed.append(1))
    assert removed == [1]
    with pytest.raises(OutcomeUnknown):
        wait_or_remove(broken, broken)


def test_what_is_left_of_a_failed_creation_goes_or_its_outcome_is_unknown() -> None:
    removed: list[int] = []
    error = QuotaExceeded("no", remedy="more")
    assert remove_half_made(error, lambda: removed.append(1)) is error
    assert removed == [1]
    doubt = remove_half_made(error, lambda: _raise(Unavailable("away", remedy="repeat")))
    assert isinstance(doubt, OutcomeUnknown) and "away" in doubt.why


def _raise(error: Exception) -> NoReturn:
    raise error


def _never(*arguments: object) -> Any:
    raise AssertionError("not to be called")
