"""Parts: only what was recorded, or what a call that never ended created, is ours."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import CpiError, Kind, Mark, OutcomeUnknown, Part
from coterie.cpi.kit.parts import Parts

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)


class Records:
    def __init__(self) -> None:
        self.rows: list[Part] = []

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        self.rows.append(Part(kind, name, None))

    def record(self, mark: Mark, kind: Kind, name: str, cid: str) -> None:
        if Part(kind, name, None) in self.rows:
            self.rows.remove(Part(kind, name, None))
        self.rows.append(Part(kind, name, cid))

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        self.rows.remove(Part(kind, name, None))

    def list_of(self, mark: Mark) -> list[Part]:
        return list(self.rows)


def ours(parts: Parts, *found: str) -> list[str]:
    return parts.ours(MARK, "port", found, str, lambda _: "port")


def test_a_part_is_intended_before_and_recorded_after_the_call() -> None:
    records = Records()
    seen: list[Part] = []

    def create() -> str:
        seen.extend(records.rows)
        return "p-1"

    assert Parts(records).create(MARK, "port", "port", create, str) == "p-1"
    assert (seen, records.rows) == ([Part("port", "port", None)], [Part("port", "port", "p-1")])


def test_only_an_error_that_leaves_the_outcome_open_leaves_the_intent() -> None:
    records = Records()

    def fail(error: CpiError) -> str:
        raise error

    with pytest.raises(CpiError):
        Parts(records).create(MARK, "port", "port", lambda: fail(CpiError("refused")), str)
    assert records.rows == []
    with pytest.raises(OutcomeUnknown):
        Parts(records).create(MARK, "port", "port", lambda: fail(OutcomeUnknown("lost")), str)
    assert records.rows == [Part("port", "port", None)]


def test_without_any_record_an_older_release_created_it() -> None:
    assert ours(Parts(Records()), "p-1", "p-2") == ["p-1", "p-2"]


def test_a_copy_is_not_ours_also_when_the_part_is_gone() -> None:
    records = Records()
    parts = Parts(records)
    parts.create(MARK, "port", "port", lambda: "p-1", str)
    assert ours(parts, "p-1", "copy") == ["p-1"]
    assert ours(parts, "copy") == []


def test_what_a_killed_call_created_is_recorded_when_it_is_used() -> None:
    records = Records()
    parts = Parts(records)
    parts.record_unfinished(MARK, "port", "port", "p-1")
    assert records.rows == []  # of an older release: it goes by its mark
    records.intend(MARK, "port", "port")
    for _ in range(2):
        parts.record_unfinished(MARK, "port", "port", "p-1")
    assert records.rows == [Part("port", "port", "p-1")]
    assert not parts.is_ours(MARK, "port", "copy", "port")


def test_what_a_killed_call_created_is_the_oldest_and_gets_recorded() -> None:
    records = Records()
    parts = Parts(records)
    records.intend(MARK, "port", "port")
    assert ours(parts, "p-1", "copy") == ["p-1"]
    assert records.rows == [Part("port", "port", "p-1")]
    assert ours(parts, "copy") == []


def test_what_has_the_name_of_a_recorded_object_and_another_id_is_a_copy() -> None:
    records = Records()
    parts = Parts(records)
    records.rows = [Part("server_group", "", None)]  # of the object itself
    assert not parts.is_copy(MARK, "server_group", "g-1"), "one that an older release created is not recorded"
    parts.create(MARK, "server_group", "server_group", lambda: "g-1", str)
    assert [parts.is_copy(MARK, "server_group", cid) for cid in ("g-1", "g-2")] == [False, True]
    records.intend(MARK, "server_group", "server_group")
    assert not parts.is_copy(MARK, "server_group", "g-2"), "it may be that of a call that never ended"
