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


def test_what_a_killed_call_created_is_the_oldest_and_gets_recorded() -> None:
    records = Records()
    parts = Parts(records)
    records.intend(MARK, "port", "port")
    assert ours(parts, "p-1", "copy") == ["p-1"]
    assert records.rows == [Part("port", "port", "p-1")]
    assert ours(parts, "copy") == []
