"""Every refusal of the datacenter has its error in the contract, and nothing else leaves the driver."""

from __future__ import annotations

import pytest

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.sandbox import errors
from coterie.sandbox.errors import SandboxError

from .lab import Lab


def kinds(root: type) -> list[type]:
    return [found for kind in root.__subclasses__() for found in (kind, *kinds(kind))]


EXPECTED = {
    "NoSuch": "VMNotFound",
    "BadRequest": "InvalidCall",
    "OverQuota": "QuotaExceeded",
    "NoHost": "NoPlacement",
    "AddressTaken": "VMCreationFailed",
    "InUse": "CpiError",
    "RevisionDiffers": "Changed",
    "Failed": "CpiError",
    "Denied": "PrivilegeMissing",
    "Unauthenticated": "AuthenticationFailed",
    "Throttled": "Throttled",
    "Unavailable": "Unavailable",
    "AnswerLost": "OutcomeUnknown",
    "StateUnreadable": "CpiError",
}


def example(kind: type[SandboxError]) -> SandboxError:
    if kind is errors.NoSuch:
        return errors.NoSuch("vm", "x")
    if kind is errors.AnswerLost:
        return errors.AnswerLost("lost", changing=True)
    return kind("what", why="why", remedy="remedy", details={"a": 1})


def test_every_refusal_is_translated() -> None:
    assert {kind.__name__: type(translate(example(kind))).__name__ for kind in kinds(SandboxError)} == EXPECTED


def test_words_and_facts_survive() -> None:
    told = translate(errors.OverQuota("what", why="why", remedy="remedy", details={"a": 1}))
    assert told.facts() == {
        "code": "quota_exceeded",
        "what": "what",
        "why": "why",
        "remedy": "remedy",
        "retryable": False,
        "details": {"a": 1},
    }
    assert translate(errors.Failed("x")).retryable
    assert not translate(errors.Failed("x", retryable=False)).retryable


@pytest.mark.parametrize("kind", [contract.GroupMissing, contract.NoPlacement, contract.Throttled, CpiError])
def test_errors_survive_the_coordinator(kind: type[CpiError]) -> None:
    sent = kind("what", why="why", remedy="remedy", details={"a": 1})
    back = contract.revive(sent.facts())
    assert type(back) is kind
    assert back.facts() == sent.facts()


def test_unknown_facts_become_a_plain_refusal() -> None:
    assert type(contract.revive({"code": "from the future"})) is CpiError
    assert type(contract.revive({})) is CpiError


@pytest.mark.parametrize("code", errors.INJECTABLE)
def test_an_injected_error_of_any_code_leaves_typed(lab: Lab, code: str) -> None:
    lab.fault("*", "error", code=code)
    for call in (
        lambda: lab.vm(),
        lambda: lab.group(security_group_names=["web"]),
        lambda: lab.cpi.survey("vm", lab.director),
        lambda: lab.cpi.has_vm("x"),
        lambda: lab.cpi.delete_server_group("cg-x"),
    ):
        with pytest.raises(CpiError) as caught:
            call()
        assert caught.value.remedy


def test_a_state_that_cannot_be_used_is_told(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "sandbox.db"
    file.write_text("no database" * 100)
    with pytest.raises(CpiError, match="cannot be used") as caught:
        Lab(Path(str(tmp_path)))
    assert caught.value.remedy
