"""The one writer: what waited too long comes again, refusals cross it as errors of the contract, one of two counts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from coterie.cpi.contract import GroupMissing, Json, Mark, OutcomeUnknown, QuotaExceeded, Runtime, Unavailable, revive
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.cpi.drivers.openstack.envelope import sealed
from coterie.cpi.drivers.openstack.refusals import Refusal

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
CHANGE: Json = {"kind": "disk", "mark": MARK.wire(), "body": {}}


class Straight:
    """A coordinator for one caller; it remembers what was submitted."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Json]] = []
        self.ended = False

    def submit(self, cpi: Any, domain: str, change: Json) -> Json:
        self.seen.append((domain, change))
        outcome: Json = cpi.apply(domain, [change])[0]
        return outcome

    def hold(self, domain: str) -> None:
        if self.ended:
            raise Unavailable(f"the turn to write {domain} has ended", remedy="repeat")


@pytest.fixture
def cpi(monkeypatch: pytest.MonkeyPatch) -> OpenstackCpi:
    made = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9"}, Runtime(MARK.director, Straight()))
    monkeypatch.setattr(made, "effect", lambda domain, change: {"id": "x", "made": True})
    return made


def test_what_waited_too_long_has_to_come_again(cpi: OpenstackCpi) -> None:
    now = time.time()
    old, new = ({**CHANGE, "until": now - 1}, {**CHANGE, "until": now + 60})
    assert cpi.apply("d", [old, new]) == [{"ok": False, "later": True}, {"ok": True, "id": "x", "made": True}]


def test_a_submitter_that_lives_comes_again_until_it_is_served(
    cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([{"ok": False, "later": True}, {"ok": True, "id": "x", "made": True}])
    monkeypatch.setattr(cpi, "apply", lambda domain, changes: [next(answers)])
    assert cpi.once("disk", MARK, {"size": 1}) == ("x", True)
    first, second = cpi.runtime.coordinator.seen  # type: ignore[attr-defined] # ours
    assert first[0] == second[0]
    assert second[1]["until"] >= first[1]["until"] > time.time()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refusal("do it", 403, "forbidden", "Quota exceeded for x"), QuotaExceeded),
        (GroupMissing("gone", remedy="make it"), GroupMissing),
    ],
)
def test_refusals_cross_the_writer(
    cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception]
) -> None:
    def refuse(domain: str, change: Json) -> Json:
        raise error

    monkeypatch.setattr(cpi, "effect", refuse)
    with pytest.raises(kind):
        cpi.once("disk", MARK, {})
    (outcome,) = cpi.apply("d", [{**CHANGE, "until": time.time() + 9}])
    assert type(revive(outcome["error"])) is kind


def test_of_two_under_one_mark_the_oldest_counts_and_the_maker_of_the_other_removes_it(
    cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cpi.api, "send", lambda *arguments: sent.append(arguments))
    rows = [{"id": "a"}, {"id": "b"}]
    assert cpi.elected("disk", "a", rows) == {"id": "a", "made": True}
    assert sent == []
    assert cpi.elected("disk", "b", rows) == {"id": "a", "made": False}
    assert [(one[0], one[3]) for one in sent] == [("DELETE", "/volumes/b")]


def test_what_is_not_ready_is_removed_or_stays_in_doubt(cpi: OpenstackCpi) -> None:
    removed: list[int] = []

    def broken() -> None:
        raise QuotaExceeded("no", remedy="more")

    with pytest.raises(QuotaExceeded):
        cpi.finished(broken, lambda: removed.append(1))
    assert removed == [1]
    with pytest.raises(OutcomeUnknown):
        cpi.finished(broken, broken)


@pytest.mark.parametrize(
    "change",
    [CHANGE, {**CHANGE, "kind": "security_group", "body": {"name": "web"}}, {**CHANGE, "kind": "vm", "group": "cg-x"}],
    ids=lambda change: str(change["kind"]),
)
def test_whose_turn_has_ended_sends_nothing(monkeypatch: pytest.MonkeyPatch, change: Json) -> None:
    """Its looks took longer than its turn; whoever has the turn now makes the same."""
    turn = Straight()
    turn.ended = True
    secret = {"auth_url": "http://127.0.0.1:9", "username": "u", "password": "p", "project_name": "x"}
    cpi = OpenstackCpi("north", secret, Runtime(MARK.director, turn))
    sent: list[Any] = []
    monkeypatch.setattr(cpi.api, "send", lambda *arguments, **more: sent.append(arguments))
    monkeypatch.setattr(cpi, "rows", lambda kind, **params: iter(()))
    monkeypatch.setattr(type(cpi.api), "project", "x")
    sealing = {"sealed": sealed(cpi.settings, {"server": {}})} if change["kind"] == "vm" else {}
    (outcome,) = cpi.apply("d", [{**change, **sealing, "until": time.time() + 9}])
    assert type(revive(outcome["error"])) is Unavailable
    assert sent == []
