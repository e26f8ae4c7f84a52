"""The verdict over a run: what counts as proven, as excused, and as a failure of the run."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.conformance.proof import Excuse, Outcome, proves
from coterie.cpi.conformance.verdict import CONTRACT, Verdict, judge, table
from coterie.cpi.contract import Cpi

REASON = Excuse("find", "it has no list", "manual, page 7")


def outcome(result: str = "passed", methods: tuple[str, ...] = CONTRACT, driver: str = "d", **fields: Any) -> Outcome:
    return Outcome(driver, "test_it", methods, result, **fields)


def state(verdict: Verdict, method: str, driver: str = "d") -> str:
    return verdict.cells[method, driver].state


def test_the_contract_is_every_method_of_a_driver() -> None:
    assert set(CONTRACT) == Cpi.__abstractmethods__


def test_all_proven_is_no_complaint() -> None:
    assert judge([outcome()]).complaints == ()


def test_a_method_without_a_passing_test_fails_the_run() -> None:
    verdict = judge([outcome(methods=tuple(name for name in CONTRACT if name != "ping"))])
    assert verdict.complaints == ("d: ping: no test of it passed",)
    assert state(verdict, "ping") == "FAILED"


def test_one_failure_outweighs_other_proofs() -> None:
    verdict = judge([outcome(), outcome("failed", ("ping",))])
    assert verdict.complaints == ("d: ping: a test of it failed",)


def test_a_chosen_part_is_not_judged_for_what_it_leaves_out() -> None:
    assert judge([outcome(methods=("ping",))], parts=["d"]).complaints == ()


@pytest.mark.parametrize("parts", [(), ("d",)])
@pytest.mark.parametrize("excuse", [None, Excuse("find", "", "page 7"), Excuse("find", "cannot", " ")])
def test_a_skip_without_reason_and_citation_fails_the_run(excuse: Excuse | None, parts: tuple[str, ...]) -> None:
    verdict = judge([outcome(), outcome("skipped", ("find",), excuse=excuse)], parts)
    assert verdict.complaints == ("d: test_it was skipped without a reason and a citation in the capabilities",)


def test_an_excused_skip_is_no_complaint_but_no_proof_either() -> None:
    skip = outcome("skipped", ("find",), excuse=REASON)
    assert judge([outcome(), skip]).complaints == ()
    others = outcome(methods=tuple(name for name in CONTRACT if name != "find"))
    assert judge([others, skip]).complaints == ("d: find: no test of it passed",)


def test_a_declared_refusal_counts_once_it_was_seen() -> None:
    declared = {"find": REASON}
    others = tuple(name for name in CONTRACT if name != "find")
    unseen = judge([outcome(methods=others, unsupported=declared)])
    assert unseen.complaints == ("d: find: declared unsupported, but not seen to refuse",)
    seen = judge([outcome(methods=others, unsupported=declared, refused=("find",))])
    assert seen.complaints == ()
    assert seen.cells["find", "d"].note == "it has no list (manual, page 7)"


def test_a_refusal_without_a_citation_fails_the_run() -> None:
    verdict = judge([outcome(unsupported={"find": Excuse("find", "no", "")}, refused=("find",))])
    assert verdict.complaints == ("d: find: declared unsupported without a reason and a citation",)


def test_drivers_are_judged_apart_and_shown_side_by_side() -> None:
    verdict = judge([outcome(driver="a"), outcome("failed", driver="b")])
    assert (state(verdict, "ping", "a"), state(verdict, "ping", "b")) == ("ok", "FAILED")
    lines = table(verdict)
    assert lines[0].split() == ["method", "a", "b"]
    assert ["ping", "ok", "FAILED"] in [line.split() for line in lines]
    assert len(lines) == 1 + len(CONTRACT)


def test_an_outcome_travels_as_plain_values() -> None:
    one = outcome("skipped", ("find",), excuse=REASON, refused=("survey",), unsupported={"find": REASON})
    assert Outcome.of_wire(one.wire(), "skipped") == one


@pytest.mark.parametrize("methods", [(), ("no_such_method",)])
def test_only_methods_of_the_contract_can_be_proven(methods: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not methods of the contract"):
        proves(*methods)
