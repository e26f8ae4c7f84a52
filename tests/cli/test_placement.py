"""What an audit tells of a bad spread, and what it offers."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest

from coterie.cli import placement
from coterie.cli.show.paint import Paint
from coterie.group.audit import Member, audit


class Session:
    """As much of one as the verb asks for; its client answers with this group."""

    json = False
    paint = Paint("never", io.StringIO())

    def __init__(self, group: dict[str, Any]) -> None:
        self.client = self
        self.placement = self
        self.told = ""
        self._group = group

    def audit(self, *, deployment: str | None) -> dict[str, Any]:
        return {"nodes": [], "groups": [self._group]}

    def data(self, text: str) -> None:
        self.told = text


def told(group: dict[str, Any], **more: Any) -> tuple[str, int]:
    known = {"deployment": "shop", "name": "web", "cloud": "north", "state": "live", "notes": [], "remedy": ""}
    session = Session({**known, **group, **more})
    code = inspect.unwrap(placement.audit.callback)(session, None)  # type: ignore[arg-type] # it has one
    return session.told, code


@pytest.mark.parametrize(
    ("hosts", "code", "offer"),
    [
        ("aaab", 1, "place 1 anew: coterie deploy MANIFEST --recreate --node web/2"),
        ("aabb", 0, None),
    ],
)
def test_the_recreate_that_mends_a_bad_spread_is_offered(hosts: str, code: int, offer: str | None) -> None:
    members = [Member(f"web/{number}", host) for number, host in enumerate(hosts)]
    words, found = told(audit("soft-anti-affinity", members, [], []))
    assert (found, "mend" in words) == (code, offer is not None)
    assert (offer or "") in words


def test_drift_and_what_to_do_are_part_of_the_verdict() -> None:
    judged = audit("anti-affinity", [Member("web/0", "a"), Member("web/1", "b")], [], [])
    words, code = told(judged, state="drifted", notes=["web/1 is no member any more"], remedy="repair it")
    assert "verdict     holds now, but the group has drifted" in words
    assert "remedy      repair it" in words
    assert code == 0


def test_what_cannot_be_proved_is_unknown_and_nodes_that_are_down_are_named() -> None:
    words, code = told(audit("host-affinity", [Member("web/0", "a", down="error"), Member("web/1", "b")], [], []))
    assert "verdict     unknown" in words
    assert "down        web/0 (error)" in words
    assert "worst host  b takes down 1 (web/1)" in words
    assert code == 0


def test_a_change_that_was_not_completed_is_part_of_the_verdict() -> None:
    judged = audit("anti-affinity", [Member("web/0", "a"), Member("web/1", "b")], [], [])
    words, code = told(judged, outside=["web/1"], unfinished_task=7)
    assert "holds now; not in the group yet: web/1" in words
    assert "task 7 did not complete the deployment: deploy again" in words
    assert code == 0


def test_domains_are_shown_in_place_of_hosts() -> None:
    members = [Member("web/0", None, domain="z1/0"), Member("web/1", None, domain="z1/1")]
    words, code = told(audit("anti-affinity", members, [], [], domain_word="fault domain"))
    assert "worst fault domain  z1/0 takes down 1 (web/0)" in words
    assert "FAULT DOMAIN  COUNT  NODES" in words and "worst host" not in words
    assert code == 0
