"""Without our Director: the mark and the CIDs that the caller knows. Anything short of proof means keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coterie.cleanup.cpi_method import judge
from coterie.cpi.contract import CloudObject, Mark

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
MARK = Mark(DIRECTOR, "a" * 26)
ORPHAN = CloudObject("disk", "d-1", "x", created_at=1000.0, mark=MARK, in_use_by=())


def verdict(found: CloudObject, known: frozenset[str] | None = frozenset()) -> str:
    return judge(found, DIRECTOR, known, now=5000.0, grace_s=600.0).verdict


def test_proof_makes_an_orphan() -> None:
    assert verdict(ORPHAN) == "orphan"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mark": None}, "foreign"),
        ({"mark": Mark("other", "a" * 26)}, "foreign"),
        ({"in_use_by": None}, "keep"),
        ({"in_use_by": ("vm-1",)}, "keep"),
        ({"created_at": None}, "keep"),
        ({"created_at": 4900.0}, "young"),
        ({"created_at": 9000.0}, "young"),
        ({"kind": "network"}, "keep"),
        ({"tags": {"coterie-keep": "yes"}}, "keep"),
    ],
)
def test_missing_or_conflicting_evidence_saves_it(change: dict[str, Any], expected: str) -> None:
    assert verdict(replace(ORPHAN, **change)) == expected


def test_what_the_ledger_knows_is_in_use() -> None:
    assert verdict(ORPHAN, frozenset({"d-1"})) == "in_use"


def test_without_a_ledger_nothing_is_an_orphan() -> None:
    assert verdict(ORPHAN, None) == "keep"


COMPILED = replace(ORPHAN, kind="server_group", cid="cg-1", name="compilation-5c1f")


def test_a_group_that_a_compilation_vm_left_is_an_orphan_although_it_is_known() -> None:
    assert verdict(COMPILED, frozenset({"cg-1"})) == "orphan"
    assert verdict(replace(COMPILED, name="x", tags={"job": "compilation-5c1f"}), frozenset({"cg-1"})) == "orphan"
    assert verdict(replace(COMPILED, in_use_by=("vm-1",)), frozenset({"cg-1"})) == "keep"
    assert verdict(replace(COMPILED, name="web"), frozenset({"cg-1"})) == "in_use"
    assert verdict(COMPILED, None) == "keep"
