"""Anything short of proof means keep: the Director's evidence, object by object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.cleanup.findings import judge, judge_absent
from coterie.cpi.contract import CloudObject, Mark, find_original
from coterie.ledger.rows.evidence import MarkRecord

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
INTENT = "a" * 26
FOUND = CloudObject("disk", "d-1", "x", created_at=1000.0, mark=Mark(DIRECTOR, INTENT), in_use_by=(), tags={})
ROW = MarkRecord(INTENT, "disk", "lab", "live", "d-1", "dep", None, "web/0", False, None, None)


def weigh(found: dict[str, Any], row: dict[str, Any] | None) -> tuple[str, str]:
    record = None if row is None else replace(ROW, **row)
    made = judge(replace(FOUND, **found), record, DIRECTOR, "lab", 5000.0)
    return made.verdict, made.action


def test_mark_director_and_ledger_agree_that_nothing_needs_it() -> None:
    made = judge(FOUND, ROW, DIRECTOR, "lab", 5000.0)
    assert (made.verdict, made.action) == ("orphan", "delete")
    assert any(INTENT in fact for fact in made.evidence)


@pytest.mark.parametrize(
    ("found", "row", "verdict", "action"),
    [
        ({"mark": None}, {}, "foreign", "none"),
        ({"mark": Mark("other", INTENT)}, {}, "foreign", "none"),
        ({}, None, "keep", "none"),
        ({}, {"cloud": "elsewhere"}, "in_use", "none"),
        ({}, {"cid": "d-2"}, "keep", "none"),
        ({}, {"kind": "vm"}, "keep", "none"),
        ({"kind": "network"}, {"kind": "network"}, "keep", "none"),
        ({"in_use_by": None}, {}, "keep", "none"),
        ({"tags": {"coterie-keep": "1"}}, {}, "keep", "none"),
        ({"tags": {"coterie-keep": "no"}}, {}, "orphan", "delete"),
        ({}, {"task": 7}, "keep", "none"),
        ({}, {"user": "node web/0"}, "in_use", "none"),
        ({}, {"user": "node web/0", "state": "unknown", "cid": None}, "unknown_outcome", "reclaim"),
        ({}, {"user": "node web/0", "state": "unknown", "cid": None, "task": 7}, "in_use", "none"),
        ({}, {"user": "node web/0", "state": "gone"}, "keep", "none"),
        ({}, {"state": "unknown", "cid": None}, "unknown_outcome", "delete"),
        ({}, {"state": "intended", "cid": None}, "unknown_outcome", "delete"),
        ({}, {"state": "gone", "cid": None, "tombstone": True}, "orphan", "delete"),
        ({}, {"state": "deleting"}, "orphan", "delete"),
        ({}, {"state": "kept"}, "orphan", "delete"),
        ({"kind": "security_group", "cid": "s"}, {"kind": "server_group", "cid": "cg"}, "orphan", "delete"),
        ({"kind": "security_group", "cid": "s"}, {"kind": "server_group", "user": "x"}, "in_use", "none"),
        ({}, {"user": "node web/0", "node_state": "up", "vm_cid": "vm-1"}, "drift", "none"),
        ({"in_use_by": ("vm-1",)}, {"user": "n", "node_state": "up", "vm_cid": "vm-1"}, "in_use", "none"),
    ],
)
def test_each_case(found: dict[str, Any], row: dict[str, Any] | None, verdict: str, action: str) -> None:
    assert weigh(found, row) == (verdict, action)


@pytest.mark.parametrize(
    ("row", "verdict", "action"),
    [
        ({"user": "node web/0"}, "missing", "none"),
        ({"user": "node web/0", "state": "unknown"}, "unknown_outcome", "close"),
        ({"state": "intended", "task": 3}, "in_use", "none"),
        ({"state": "intended"}, "unknown_outcome", "close"),
        ({"state": "deleting"}, "orphan", "close"),
        ({}, "orphan", "close"),
    ],
)
def test_each_row_without_an_object(row: dict[str, Any], verdict: str, action: str) -> None:
    made = judge_absent(replace(ROW, **row))
    assert (made.verdict, made.action) == (verdict, action)


@pytest.mark.parametrize(
    ("times", "original"),
    [((5.0,), "0"), ((7.0, 5.0, 6.0), "1"), ((5.0, 5.0), None), ((5.0, None), None), ((None, None), None)],
)
def test_of_objects_with_one_mark_the_oldest_is_the_original(times: tuple[float | None, ...], original: str) -> None:
    assert find_original([(str(n), at) for n, at in enumerate(times)]) == original
